#include "test.h"

#include "admin/metrics_accept.h"
#include "admin/metrics_text.h"

static char memory[8192];

static struct weir_metrics_text start(enum weir_metrics_form form)
{
    return (struct weir_metrics_text){ .out = weir_buffer_init(memory, sizeof memory),
                                       .form = form };
}

static const struct weir_metric decisions = { WEIR_METRIC_COUNTER, "weir_decisions", NULL,
                                              "Requests by outcome." };
static const struct weir_metric latency = { WEIR_METRIC_HISTOGRAM, "weir_store_latency_seconds",
                                            "seconds", "Waits." };
static const struct weir_metric loaded = { WEIR_METRIC_GAUGE,
                                           "weir_policy_loaded_timestamp_seconds", "seconds",
                                           "When." };
static const struct weir_metric build = { WEIR_METRIC_INFO, "weir_build", NULL, "Which." };

static void names_a_counter_as_each_form_wants_it(void **state)
{
    (void)state;
    struct weir_metrics_text text = start(WEIR_METRICS_PLAIN);
    weir_metrics_put_one(&text, &decisions, 7);
    weir_metrics_end(&text);
    assert_string_equal(weir_buffer_string(&text.out),
                        "# HELP weir_decisions_total Requests by outcome.\n"
                        "# TYPE weir_decisions_total counter\n"
                        "weir_decisions_total 7\n");

    text = start(WEIR_METRICS_OPEN);
    weir_metrics_put_one(&text, &decisions, 7);
    weir_metrics_end(&text);
    assert_string_equal(weir_buffer_string(&text.out),
                        "# HELP weir_decisions Requests by outcome.\n"
                        "# TYPE weir_decisions counter\n"
                        "weir_decisions_total 7\n"
                        "# EOF\n");
}

static void names_a_unit_in_openmetrics(void **state)
{
    (void)state;
    struct weir_metrics_text text = start(WEIR_METRICS_OPEN);
    weir_metrics_begin(&text, &loaded);
    weir_metrics_put_time(&text, NULL, 1764525227500000);
    assert_string_equal(weir_buffer_string(&text.out),
                        "# HELP weir_policy_loaded_timestamp_seconds When.\n"
                        "# TYPE weir_policy_loaded_timestamp_seconds gauge\n"
                        "# UNIT weir_policy_loaded_timestamp_seconds seconds\n"
                        "weir_policy_loaded_timestamp_seconds 1764525227.5\n");
}

static void writes_an_info_as_a_gauge_for_who_knows_none(void **state)
{
    (void)state;
    struct weir_metrics_text text = start(WEIR_METRICS_PLAIN);
    weir_metrics_begin(&text, &build);
    weir_metrics_put(&text, WEIR_METRIC_LABELS_OF({ "version", "0.1.0" }), 1);
    assert_string_equal(weir_buffer_string(&text.out), "# HELP weir_build_info Which.\n"
                                                       "# TYPE weir_build_info gauge\n"
                                                       "weir_build_info{version=\"0.1.0\"} 1\n");
    text = start(WEIR_METRICS_OPEN);
    weir_metrics_begin(&text, &build);
    weir_metrics_put(&text, WEIR_METRIC_LABELS_OF({ "version", "0.1.0" }), 1);
    assert_string_equal(weir_buffer_string(&text.out), "# HELP weir_build Which.\n"
                                                       "# TYPE weir_build info\n"
                                                       "weir_build_info{version=\"0.1.0\"} 1\n");
}

static void escapes_the_values_of_labels(void **state)
{
    (void)state;
    static const struct {
        const char *when, *value, *written;
    } rows[] = {
        { "plain", "api", "api" },
        { "nothing", "", "" },
        { "a quote", "a\"b", "a\\\"b" },
        { "a backslash", "a\\b", "a\\\\b" },
        { "the end of a line", "a\nb", "a\\nb" },
        { "an escape that is one already", "\\n", "\\\\n" },
        { "what would end the label", "\"} 1\nx{y=\"", "\\\"} 1\\nx{y=\\\"" },
        { "letters of another language", "Zürich", "Zürich" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        char wanted[256];
        snprintf(wanted, sizeof wanted, "weir_decisions_total{policy=\"%s\"} 1\n", rows[i].written);
        struct weir_metrics_text text = start(WEIR_METRICS_PLAIN);
        text.metric = &decisions;
        weir_metrics_put(&text, WEIR_METRIC_LABELS_OF({ "policy", rows[i].value }), 1);
        assert_string_equal(weir_buffer_string(&text.out), wanted);
    }
}

static void leaves_out_labels_without_a_value(void **state)
{
    (void)state;
    struct weir_metrics_text text = start(WEIR_METRICS_PLAIN);
    text.metric = &decisions;
    weir_metrics_put(&text, WEIR_METRIC_LABELS_OF({ "a", NULL }, { "b", "2" }, { "c", "3" }), 1);
    weir_metrics_put(&text, WEIR_METRIC_LABELS_OF({ "a", NULL }), 2);
    assert_string_equal(weir_buffer_string(&text.out), "weir_decisions_total{b=\"2\",c=\"3\"} 1\n"
                                                       "weir_decisions_total 2\n");
}

/* F3 */
static void writes_times_in_seconds_without_rounding(void **state)
{
    (void)state;
    static const struct {
        uint64_t us;
        const char *written;
    } rows[] = {
        { 0, "0" },
        { 1, "0.000001" },
        { 250, "0.00025" },
        { 1000000, "1" },
        { 1500000, "1.5" },
        { 1764525227000001, "1764525227.000001" },
        { 999999, "0.999999" },
        { 10, "0.00001" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char wanted[96];
        snprintf(wanted, sizeof wanted, "weir_policy_loaded_timestamp_seconds %s\n",
                 rows[i].written);
        struct weir_metrics_text text = start(WEIR_METRICS_PLAIN);
        text.metric = &loaded;
        weir_metrics_put_time(&text, NULL, rows[i].us);
        assert_string_equal(weir_buffer_string(&text.out), wanted);
    }
}

static void writes_a_histogram_cumulatively_and_in_seconds(void **state)
{
    (void)state;
    static struct weir_histogram histogram;
    weir_histogram_note(&histogram, 250);
    weir_histogram_note(&histogram, 400);
    weir_histogram_note(&histogram, 2000000);
    const struct weir_histogram_sums sums = weir_histogram_read(&histogram);
    struct weir_metrics_text text = start(WEIR_METRICS_PLAIN);
    weir_metrics_begin(&text, &latency);
    weir_metrics_put_histogram(&text, &sums);
    assert_string_equal(weir_buffer_string(&text.out),
                        "# HELP weir_store_latency_seconds Waits.\n"
                        "# TYPE weir_store_latency_seconds histogram\n"
                        "weir_store_latency_seconds_bucket{le=\"0.00025\"} 1\n"
                        "weir_store_latency_seconds_bucket{le=\"0.0005\"} 2\n"
                        "weir_store_latency_seconds_bucket{le=\"0.001\"} 2\n"
                        "weir_store_latency_seconds_bucket{le=\"0.0025\"} 2\n"
                        "weir_store_latency_seconds_bucket{le=\"0.005\"} 2\n"
                        "weir_store_latency_seconds_bucket{le=\"0.01\"} 2\n"
                        "weir_store_latency_seconds_bucket{le=\"0.02\"} 2\n"
                        "weir_store_latency_seconds_bucket{le=\"0.05\"} 2\n"
                        "weir_store_latency_seconds_bucket{le=\"0.1\"} 2\n"
                        "weir_store_latency_seconds_bucket{le=\"0.25\"} 2\n"
                        "weir_store_latency_seconds_bucket{le=\"0.5\"} 2\n"
                        "weir_store_latency_seconds_bucket{le=\"1.0\"} 2\n"
                        "weir_store_latency_seconds_bucket{le=\"+Inf\"} 3\n"
                        "weir_store_latency_seconds_sum 2.00065\n"
                        "weir_store_latency_seconds_count 3\n");
}

static void takes_openmetrics_only_where_it_is_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *when, *accept;
        enum weir_metrics_form form;
    } rows[] = {
        { "there is no Accept", NULL, WEIR_METRICS_PLAIN },
        { "it is empty", "", WEIR_METRICS_PLAIN },
        { "anything will do", "*/*", WEIR_METRICS_PLAIN },
        { "a browser asks", "text/html,application/xhtml+xml,*/*;q=0.8", WEIR_METRICS_PLAIN },
        { "Prometheus 2 asks",
          "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
          "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
          WEIR_METRICS_OPEN },
        { "Prometheus 3 asks",
          "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
          "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;"
          "escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
          WEIR_METRICS_OPEN },
        { "plain text is liked more",
          "application/openmetrics-text;version=1.0.0;q=0.4, text/plain;q=0.5",
          WEIR_METRICS_PLAIN },
        { "both are liked alike", "text/plain, application/openmetrics-text", WEIR_METRICS_OPEN },
        { "it is refused", "application/openmetrics-text;q=0, */*", WEIR_METRICS_PLAIN },
        { "it is refused, and nothing else is taken", "application/openmetrics-text;q=0.000",
          WEIR_METRICS_PLAIN },
        { "a version that is not written here", "application/openmetrics-text;version=2.0.0",
          WEIR_METRICS_PLAIN },
        { "an old version only", "application/openmetrics-text;version=0.0.1", WEIR_METRICS_PLAIN },
        { "the version is quoted", "application/openmetrics-text; version=\"1.0.0\"",
          WEIR_METRICS_OPEN },
        { "letters are large", "Application/OpenMetrics-Text; Version=1.0.0; Q=0.9",
          WEIR_METRICS_OPEN },
        { "the kind is named, and not the type", "application/*", WEIR_METRICS_PLAIN },
        { "something else is asked for", "application/json", WEIR_METRICS_PLAIN },
        { "a closer range counts more than a wide one",
          "*/*;q=1, application/openmetrics-text;q=0.9, text/plain;q=0.1", WEIR_METRICS_OPEN },
        { "a quality that is none is as if absent",
          "application/openmetrics-text;q=x, text/plain;q=0.9", WEIR_METRICS_OPEN },
        { "a quality without a value", "application/openmetrics-text;q , text/plain;q=0.9",
          WEIR_METRICS_OPEN },
        { "junk", ";;,=,;q=,q=1;;,\",", WEIR_METRICS_PLAIN },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        assert_int_equal(weir_metrics_accept(weir_text_from(rows[i].accept)), rows[i].form);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_a_counter_as_each_form_wants_it),
        cmocka_unit_test(names_a_unit_in_openmetrics),
        cmocka_unit_test(writes_an_info_as_a_gauge_for_who_knows_none),
        cmocka_unit_test(escapes_the_values_of_labels),
        cmocka_unit_test(leaves_out_labels_without_a_value),
        cmocka_unit_test(writes_times_in_seconds_without_rounding),
        cmocka_unit_test(writes_a_histogram_cumulatively_and_in_seconds),
        cmocka_unit_test(takes_openmetrics_only_where_it_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
