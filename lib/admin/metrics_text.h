/* Numbers in the text form that Prometheus reads: its own version 0.0.4, or OpenMetrics 1.0
 * (https://github.com/OpenObservability/OpenMetrics, IETF draft-ietf-opsawg-openmetrics-00). */
#ifndef WEIR_ADMIN_METRICS_TEXT_H
#define WEIR_ADMIN_METRICS_TEXT_H

#include "base/buffer.h"
#include "observe/histogram.h"

enum weir_metrics_form { WEIR_METRICS_PLAIN, WEIR_METRICS_OPEN };

enum weir_metric_type {
    WEIR_METRIC_COUNTER,
    WEIR_METRIC_GAUGE,
    WEIR_METRIC_HISTOGRAM,
    WEIR_METRIC_INFO /* a gauge in version 0.0.4; always 1 */
};

/* All samples of a family follow it, before the next one begins. `name` is without the "_total" of a
 * counter and the "_info" of an info, which are added; it ends in the unit, if there is one. */
struct weir_metric {
    enum weir_metric_type type;
    const char *name;
    const char *unit; /* "seconds", "bytes"; NULL: none, or units of a limit */
    const char *help; /* one line */
};

struct weir_metrics_text {
    struct weir_buffer out;
    enum weir_metrics_form form;
    const struct weir_metric *metric; /* whose samples follow */
};

/* A label's value may be any UTF-8; a label at NULL, or one of a value NULL, is left out. */
struct weir_metric_label {
    const char *name;
    const char *value;
};

#define WEIR_METRIC_LABELS 4

struct weir_metric_labels {
    struct weir_metric_label labels[WEIR_METRIC_LABELS];
};

#define WEIR_METRIC_LABELS_OF(...) (&(const struct weir_metric_labels){ { __VA_ARGS__ } })

/* Writes what stands before the samples of a family. */
void weir_metrics_begin(struct weir_metrics_text *text, const struct weir_metric *metric);

/* One sample; `labels` may be NULL. */
void weir_metrics_put(struct weir_metrics_text *text, const struct weir_metric_labels *labels,
                      uint64_t value);

/* The same in seconds. */
void weir_metrics_put_time(struct weir_metrics_text *text, const struct weir_metric_labels *labels,
                           uint64_t us);

/* A family of one sample without labels. */
void weir_metrics_put_one(struct weir_metrics_text *text, const struct weir_metric *metric,
                          uint64_t value);

/* All samples of a histogram, in seconds. */
void weir_metrics_put_histogram(struct weir_metrics_text *text,
                                const struct weir_histogram_sums *sums);

/* Writes what stands behind the last family. */
void weir_metrics_end(struct weir_metrics_text *text);

#endif
