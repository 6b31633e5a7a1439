ALTER TABLE "usage_month" ADD COLUMN "cost_1" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_2" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_3" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_4" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_5" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_6" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_7" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_8" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_9" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_10" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_11" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_12" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_13" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_14" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_15" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_16" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_17" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_18" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_19" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_20" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_21" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_22" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_23" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_24" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_25" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_26" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_27" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_28" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_29" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_30" bigint;--> statement-breakpoint
ALTER TABLE "usage_month" ADD COLUMN "cost_31" bigint;
--> statement-breakpoint
UPDATE usage_month SET
  cost_1 = made.cost_1,
  cost_2 = made.cost_2,
  cost_3 = made.cost_3,
  cost_4 = made.cost_4,
  cost_5 = made.cost_5,
  cost_6 = made.cost_6,
  cost_7 = made.cost_7,
  cost_8 = made.cost_8,
  cost_9 = made.cost_9,
  cost_10 = made.cost_10,
  cost_11 = made.cost_11,
  cost_12 = made.cost_12,
  cost_13 = made.cost_13,
  cost_14 = made.cost_14,
  cost_15 = made.cost_15,
  cost_16 = made.cost_16,
  cost_17 = made.cost_17,
  cost_18 = made.cost_18,
  cost_19 = made.cost_19,
  cost_20 = made.cost_20,
  cost_21 = made.cost_21,
  cost_22 = made.cost_22,
  cost_23 = made.cost_23,
  cost_24 = made.cost_24,
  cost_25 = made.cost_25,
  cost_26 = made.cost_26,
  cost_27 = made.cost_27,
  cost_28 = made.cost_28,
  cost_29 = made.cost_29,
  cost_30 = made.cost_30,
  cost_31 = made.cost_31
FROM (SELECT month, account, key,
    sum(CASE date WHEN 1 THEN cost END)::bigint AS cost_1,
    sum(CASE date WHEN 2 THEN cost END)::bigint AS cost_2,
    sum(CASE date WHEN 3 THEN cost END)::bigint AS cost_3,
    sum(CASE date WHEN 4 THEN cost END)::bigint AS cost_4,
    sum(CASE date WHEN 5 THEN cost END)::bigint AS cost_5,
    sum(CASE date WHEN 6 THEN cost END)::bigint AS cost_6,
    sum(CASE date WHEN 7 THEN cost END)::bigint AS cost_7,
    sum(CASE date WHEN 8 THEN cost END)::bigint AS cost_8,
    sum(CASE date WHEN 9 THEN cost END)::bigint AS cost_9,
    sum(CASE date WHEN 10 THEN cost END)::bigint AS cost_10,
    sum(CASE date WHEN 11 THEN cost END)::bigint AS cost_11,
    sum(CASE date WHEN 12 THEN cost END)::bigint AS cost_12,
    sum(CASE date WHEN 13 THEN cost END)::bigint AS cost_13,
    sum(CASE date WHEN 14 THEN cost END)::bigint AS cost_14,
    sum(CASE date WHEN 15 THEN cost END)::bigint AS cost_15,
    sum(CASE date WHEN 16 THEN cost END)::bigint AS cost_16,
    sum(CASE date WHEN 17 THEN cost END)::bigint AS cost_17,
    sum(CASE date WHEN 18 THEN cost END)::bigint AS cost_18,
    sum(CASE date WHEN 19 THEN cost END)::bigint AS cost_19,
    sum(CASE date WHEN 20 THEN cost END)::bigint AS cost_20,
    sum(CASE date WHEN 21 THEN cost END)::bigint AS cost_21,
    sum(CASE date WHEN 22 THEN cost END)::bigint AS cost_22,
    sum(CASE date WHEN 23 THEN cost END)::bigint AS cost_23,
    sum(CASE date WHEN 24 THEN cost END)::bigint AS cost_24,
    sum(CASE date WHEN 25 THEN cost END)::bigint AS cost_25,
    sum(CASE date WHEN 26 THEN cost END)::bigint AS cost_26,
    sum(CASE date WHEN 27 THEN cost END)::bigint AS cost_27,
    sum(CASE date WHEN 28 THEN cost END)::bigint AS cost_28,
    sum(CASE date WHEN 29 THEN cost END)::bigint AS cost_29,
    sum(CASE date WHEN 30 THEN cost END)::bigint AS cost_30,
    sum(CASE date WHEN 31 THEN cost END)::bigint AS cost_31
  FROM (SELECT account, key, cost, (extract(epoch FROM date_trunc('month', to_timestamp(day / 1000) AT TIME ZONE 'UTC')) * 1000)::bigint AS month, extract(day FROM to_timestamp(day / 1000) AT TIME ZONE 'UTC')::int AS date
    FROM usage_day) AS days
  GROUP BY 1, 2, 3) AS made
WHERE usage_month.month = made.month AND usage_month.account = made.account AND usage_month.key = made.key;
