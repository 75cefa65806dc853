/* Denials: refusals that are repeated in this process, so that a flood of one key costs the store one
 * question a second and not one for each request.
 *
 * A denial is known by all of its plan: keys, algorithms, numbers and costs. It holds for as long as
 * the store would go on refusing by what it said, and for `cap_us` at most: what happens elsewhere, to
 * a key that is reset or units that are given back, is seen after that. It only refuses; who is not
 * known here asks the store. Where a refused attempt changes something there is none: a sliding log that
 * records refusals, a penalty that is not a running ban, or one that attempts extend.
 *
 * Once the cap is over the first request asks, and the others are refused as before until it has its
 * answer, for a tenth of a second at most. So no refusal rests on an answer that is older than the cap
 * and that tenth. Once the wait is over the first one asks as well. Where a limit earns its units one
 * by one there is room for it alone, so the others are refused for as long as the next one takes to
 * earn, a tenth of a second at most; and when it has been let through, one of them asks, and so on. With
 * other limits, and after a pause, all ask: they may well be let through.
 *
 * Times are on a clock that only goes forward; one that is set back, as a caller's own may be, makes the
 * store be asked. A hash of 64 bits, keyed at random, stands for a plan: that two of a million meet
 * takes a chance of one in 30 million, and nobody can choose plans that do. */
#ifndef WEIR_LIMIT_DENIED_H
#define WEIR_LIMIT_DENIED_H

#include <weir/store.h>

struct weir_denials;

/* One limiter's, for all of its threads. `clock` is copied; NULL: the system's, which goes forward
 * only. Some 4 MiB of address space, of which memory is taken as it is used. NULL: memory ran out. */
struct weir_denials *weir_denials_new(uint64_t cap_us, const struct weir_clock *clock);

/* Another cap holds from now on. */
void weir_denials_set_cap(struct weir_denials *denials, uint64_t cap_us);

/* Accepts NULL; returns NULL. */
struct weir_denials *weir_denials_free(struct weir_denials *denials);

/* A question on its way to the store. */
struct weir_denial_question {
    uint64_t asked_us; /* 0: there is nothing to learn from its answer */
    uint64_t hash;     /* only where it renews                         */
    bool renews;       /* a denial that others are refused by meanwhile */
};

/* Refuses a check as the store did a moment ago, with its answers counted down to now, as if the store
 * had just said so; false: the store is to be asked, and `question` shown to weir_denials_note() with
 * the answer. This and the rest: thread-safe, and at NULL nothing is denied. */
bool weir_denials_replay(struct weir_denials *denials, struct weir_check *check,
                         struct weir_denial_question *question);

/* What came of a check; keeps a refusal that is worth it. */
void weir_denials_note(struct weir_denials *denials, const struct weir_check *check,
                       const struct weir_denial_question *question);

/* The store has carried out `check`: a settlement that gave units back, or a reset, ends the denials
 * that waited for these keys. Others may go with them, at the cost of a question. */
void weir_denials_forget(struct weir_denials *denials, const struct weir_check *check);

/* Ends all of them, and what is on its way from the store will not become any. */
void weir_denials_forget_all(struct weir_denials *denials);

/* Counts since the start. */
struct weir_denials_numbers {
    uint64_t replayed; /* requests refused here                                    */
    uint64_t noted;    /* refusals that were kept                                  */
    uint64_t renewed;  /* of the questions: while others were refused as before    */
    uint64_t pushed;   /* denials that others took the place of before their time  */
};

/* At NULL all 0. */
struct weir_denials_numbers weir_denials_numbers(struct weir_denials *denials);

#endif
