TRUNCATE usage_month;--> statement-breakpoint
ALTER TABLE "usage_month" DROP CONSTRAINT "usage_month_month_account_key_pk";--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "model" text COLLATE "C" NOT NULL;--> statement-breakpoint
INSERT INTO usage_month (month, account, key, model, days, calls, errors, input_tokens, output_tokens, cost, charged, timed, ms,
    cost_1, cost_2, cost_3, cost_4, cost_5, cost_6, cost_7, cost_8, cost_9, cost_10, cost_11, cost_12, cost_13, cost_14, cost_15, cost_16, cost_17, cost_18, cost_19, cost_20, cost_21, cost_22, cost_23, cost_24, cost_25, cost_26, cost_27, cost_28, cost_29, cost_30, cost_31)
  SELECT month, account, key, model, bit_or(1::bigint << date), sum(calls), sum(errors), sum(input_tokens), sum(output_tokens),
    sum(cost), sum(charged), sum(timed), sum(ms),
    sum(cost) FILTER (WHERE date = 0),
    sum(cost) FILTER (WHERE date = 1),
    sum(cost) FILTER (WHERE date = 2),
    sum(cost) FILTER (WHERE date = 3),
    sum(cost) FILTER (WHERE date = 4),
    sum(cost) FILTER (WHERE date = 5),
    sum(cost) FILTER (WHERE date = 6),
    sum(cost) FILTER (WHERE date = 7),
    sum(cost) FILTER (WHERE date = 8),
    sum(cost) FILTER (WHERE date = 9),
    sum(cost) FILTER (WHERE date = 10),
    sum(cost) FILTER (WHERE date = 11),
    sum(cost) FILTER (WHERE date = 12),
    sum(cost) FILTER (WHERE date = 13),
    sum(cost) FILTER (WHERE date = 14),
    sum(cost) FILTER (WHERE date = 15),
    sum(cost) FILTER (WHERE date = 16),
    sum(cost) FILTER (WHERE date = 17),
    sum(cost) FILTER (WHERE date = 18),
    sum(cost) FILTER (WHERE date = 19),
    sum(cost) FILTER (WHERE date = 20),
    sum(cost) FILTER (WHERE date = 21),
    sum(cost) FILTER (WHERE date = 22),
    sum(cost) FILTER (WHERE date = 23),
    sum(cost) FILTER (WHERE date = 24),
    sum(cost) FILTER (WHERE date = 25),
    sum(cost) FILTER (WHERE date = 26),
    sum(cost) FILTER (WHERE date = 27),
    sum(cost) FILTER (WHERE date = 28),
    sum(cost) FILTER (WHERE date = 29),
    sum(cost) FILTER (WHERE date = 30)
  FROM (SELECT *, ((day - month) / 86400000)::int AS date FROM (SELECT *,
    (extract(epoch FROM date_trunc('month', to_timestamp(day / 1000) AT TIME ZONE 'UTC')) * 1000)::bigint AS month
    FROM usage_day) AS days) AS dates
  GROUP BY month, account, key, model;--> statement-breakpoint
ALTER TABLE "usage_month" ADD CONSTRAINT "usage_month_month_account_key_model_pk" PRIMARY KEY("month","account","key","model");
