#include "admin/metrics_text.h"

static void put(struct weir_metrics_text *text, const char *string)
{
    weir_buffer_put_string(&text->out, string);
}

/* the head of a family */

static const char *type_name(enum weir_metric_type type, enum weir_metrics_form form)
{
    switch (type) {
    case WEIR_METRIC_COUNTER:
        return "counter";
    case WEIR_METRIC_GAUGE:
        return "gauge";
    case WEIR_METRIC_HISTOGRAM:
        return "histogram";
    case WEIR_METRIC_INFO:
        break;
    }
    return form == WEIR_METRICS_OPEN ? "info" : "gauge";
}

/* What stands behind a family's name in its samples. */
static const char *suffix_of(enum weir_metric_type type)
{
    switch (type) {
    case WEIR_METRIC_COUNTER:
        return "_total";
    case WEIR_METRIC_INFO:
        return "_info";
    case WEIR_METRIC_GAUGE:
    case WEIR_METRIC_HISTOGRAM:
        break;
    }
    return "";
}

/* OpenMetrics names the family; version 0.0.4 has no families but the samples' own names. */
static void put_head(struct weir_metrics_text *text, const char *word, const char *rest)
{
    const struct weir_metric *metric = text->metric;
    put(text, "# ");
    put(text, word);
    put(text, " ");
    put(text, metric->name);
    put(text, text->form == WEIR_METRICS_OPEN ? "" : suffix_of(metric->type));
    put(text, " ");
    put(text, rest);
    put(text, "\n");
}

void weir_metrics_begin(struct weir_metrics_text *text, const struct weir_metric *metric)
{
    text->metric = metric;
    put_head(text, "HELP", metric->help);
    put_head(text, "TYPE", type_name(metric->type, text->form));
    if (text->form == WEIR_METRICS_OPEN && metric->unit != NULL)
        put_head(text, "UNIT", metric->unit);
}

/* samples */

/* Both forms escape these three, and nothing else. */
static void put_value_text(struct weir_metrics_text *text, const char *value)
{
    for (; *value != '\0'; value++) {
        if (*value == '\\' || *value == '"')
            weir_buffer_put_char(&text->out, '\\');
        if (*value == '\n')
            put(text, "\\n");
        else
            weir_buffer_put_char(&text->out, *value);
    }
}

static void put_label(struct weir_metrics_text *text, const struct weir_metric_label *label,
                      bool *has_some)
{
    if (label->name == NULL || label->value == NULL)
        return;
    put(text, *has_some ? "," : "{");
    put(text, label->name);
    put(text, "=\"");
    put_value_text(text, label->value);
    put(text, "\"");
    *has_some = true;
}

static void put_name(struct weir_metrics_text *text, const char *suffix,
                     const struct weir_metric_labels *labels)
{
    bool has_some = false;
    put(text, text->metric->name);
    put(text, suffix);
    for (size_t i = 0; labels != NULL && i < WEIR_METRIC_LABELS; i++)
        put_label(text, &labels->labels[i], &has_some);
    put(text, has_some ? "} " : " ");
}

void weir_metrics_put(struct weir_metrics_text *text, const struct weir_metric_labels *labels,
                      uint64_t value)
{
    put_name(text, suffix_of(text->metric->type), labels);
    weir_buffer_put_number(&text->out, value);
    put(text, "\n");
}

/* "0.00025", "1", "1764525227.5" */
static void put_seconds(struct weir_buffer *out, uint64_t us)
{
    weir_buffer_put_number(out, us / 1000000);
    uint64_t rest = us % 1000000;
    if (rest == 0)
        return;
    weir_buffer_put_char(out, '.');
    for (uint64_t place = 100000; rest > 0; place /= 10) {
        weir_buffer_put_char(out, (char)('0' + rest / place));
        rest %= place;
    }
}

static void put_time(struct weir_metrics_text *text, const char *suffix,
                     const struct weir_metric_labels *labels, uint64_t us)
{
    put_name(text, suffix, labels);
    put_seconds(&text->out, us);
    put(text, "\n");
}

void weir_metrics_put_time(struct weir_metrics_text *text, const struct weir_metric_labels *labels,
                           uint64_t us)
{
    put_time(text, suffix_of(text->metric->type), labels, us);
}

void weir_metrics_put_one(struct weir_metrics_text *text, const struct weir_metric *metric,
                          uint64_t value)
{
    weir_metrics_begin(text, metric);
    weir_metrics_put(text, NULL, value);
}

static void put_count(struct weir_metrics_text *text, const char *suffix, const char *bound,
                      uint64_t count)
{
    put_name(text, suffix, WEIR_METRIC_LABELS_OF({ "le", bound }));
    weir_buffer_put_number(&text->out, count);
    put(text, "\n");
}

/* OpenMetrics wants a bound with a point, "1.0"; version 0.0.4 takes any number, and so does Prometheus. */
static const char *bound_text(uint64_t us, char *memory, size_t size)
{
    struct weir_buffer bound = weir_buffer_init(memory, size);
    put_seconds(&bound, us);
    if (us % 1000000 == 0)
        weir_buffer_put_string(&bound, ".0");
    return weir_buffer_string(&bound);
}

void weir_metrics_put_histogram(struct weir_metrics_text *text,
                                const struct weir_histogram_sums *sums)
{
    char memory[24];
    for (size_t i = 0; i < WEIR_HISTOGRAM_BOUNDS; i++)
        put_count(text, "_bucket", bound_text(weir_histogram_bounds_us[i], memory, sizeof memory),
                  sums->upto[i]);
    put_count(text, "_bucket", "+Inf", sums->count);
    put_time(text, "_sum", NULL, sums->sum_us);
    put_count(text, "_count", NULL, sums->count);
}

void weir_metrics_end(struct weir_metrics_text *text)
{
    if (text->form == WEIR_METRICS_OPEN)
        put(text, "# EOF\n");
}
