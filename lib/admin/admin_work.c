/* The thread for what blocks: looks at keys, changes, reloads. */
#include "admin/admin.h"

#include <signal.h>
#include <stdlib.h>

#include "base/signals.h"

/* jobs */

struct weir_admin_job *weir_admin_job_new(const struct weir_admin_route *route)
{
    struct weir_admin_job *job = calloc(1, sizeof *job);
    if (job == NULL)
        return NULL;
    job->route = route;
    atomic_init(&job->owners, 1);
    return job;
}

void weir_admin_job_drop(struct weir_admin_job *job)
{
    if (atomic_fetch_sub(&job->owners, 1) != 1)
        return;
    json_decref(job->members);
    json_decref(job->answer.body);
    free(job);
}

/* the queue */

static bool has_room(struct weir_admin *admin)
{
    pthread_mutex_lock(&admin->mutex);
    bool has = admin->waiting < WEIR_ADMIN_QUEUE_MAX && !admin->is_over;
    if (has)
        admin->waiting++;
    pthread_mutex_unlock(&admin->mutex);
    return has;
}

static void give_room_back(struct weir_admin *admin)
{
    pthread_mutex_lock(&admin->mutex);
    admin->waiting--;
    pthread_mutex_unlock(&admin->mutex);
}

static void put_last(struct weir_admin *admin, struct weir_admin_job *job)
{
    pthread_mutex_lock(&admin->mutex);
    if (admin->first == NULL)
        admin->first = job;
    else
        admin->last->next = job;
    admin->last = job;
    pthread_cond_signal(&admin->more);
    pthread_mutex_unlock(&admin->mutex);
}

bool weir_admin_hand_over(struct weir_admin *admin, struct weir_admin_job *job,
                          struct weir_request *request)
{
    if (!has_room(admin))
        return false;
    job->ticket = weir_park(request);
    if (job->ticket.number == 0) {
        give_room_back(admin);
        return false;
    }
    atomic_fetch_add(&job->owners, 1);
    put_last(admin, job);
    return true;
}

void weir_admin_rouse(struct weir_admin *admin)
{
    pthread_mutex_lock(&admin->mutex);
    pthread_cond_signal(&admin->more);
    pthread_mutex_unlock(&admin->mutex);
}

/* Until there is a job, or attempts are due, or it is over; or a little earlier. */
static void await_more(struct weir_admin *admin)
{
    uint64_t due_us = weir_admin_attempts_due_us(admin);
    const struct timespec until = { .tv_sec = (time_t)(due_us / 1000000),
                                    .tv_nsec = (long)(due_us % 1000000 * 1000) };
    if (due_us == 0)
        pthread_cond_wait(&admin->more, &admin->mutex);
    else
        pthread_cond_timedwait(&admin->more, &admin->mutex, &until);
}

/* The next job, or NULL where there is none yet. False: it is over. */
static bool take_first(struct weir_admin *admin, struct weir_admin_job **job)
{
    pthread_mutex_lock(&admin->mutex);
    if (admin->first == NULL && !admin->is_over)
        await_more(admin);
    bool is_over = admin->is_over;
    *job = is_over ? NULL : admin->first;
    if (*job != NULL) {
        admin->first = (*job)->next;
        admin->waiting--;
    }
    pthread_mutex_unlock(&admin->mutex);
    return !is_over;
}

static void do_job(struct weir_admin *admin, struct weir_admin_job *job)
{
    job->route->answer(admin, job);
    weir_admin_log_undone(admin, job, job->answer.status);
    weir_wake(job->ticket);
    weir_admin_job_drop(job);
}

static void *work(void *self)
{
    struct weir_admin *admin = self;
    struct weir_admin_job *job;
    while (take_first(admin, &job)) {
        if (job != NULL)
            do_job(admin, job);
        weir_admin_tell_attempts(admin);
    }
    return NULL;
}

bool weir_admin_start(struct weir_admin *admin)
{
    sigset_t before;
    weir_signals_block(&before);
    admin->has_thread = pthread_create(&admin->thread, NULL, work, admin) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (admin->has_thread)
        pthread_setname_np(admin->thread, "weir-admin");
    return admin->has_thread;
}

static void drop_waiting(struct weir_admin *admin)
{
    while (admin->first != NULL) {
        struct weir_admin_job *job = admin->first;
        admin->first = job->next;
        weir_admin_log_undone(admin, job, 503);
        weir_admin_job_drop(job);
    }
    admin->waiting = 0;
}

void weir_admin_stop(struct weir_admin *admin)
{
    pthread_mutex_lock(&admin->mutex);
    admin->is_over = true;
    pthread_cond_signal(&admin->more);
    pthread_mutex_unlock(&admin->mutex);
    if (admin->has_thread)
        pthread_join(admin->thread, NULL);
    admin->has_thread = false;
    drop_waiting(admin);
}
