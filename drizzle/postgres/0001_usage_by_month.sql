CREATE TABLE "usage_month" (
	"month" bigint NOT NULL,
	"account" text COLLATE "C" NOT NULL,
	"key" text COLLATE "C" NOT NULL,
	"days" bigint NOT NULL,
	"calls" bigint NOT NULL,
	"errors" bigint NOT NULL,
	"input_tokens" bigint NOT NULL,
	"output_tokens" bigint NOT NULL,
	"cost" bigint NOT NULL,
	"charged" bigint NOT NULL,
	"timed" bigint DEFAULT 0 NOT NULL,
	"ms" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "usage_month_month_account_key_pk" PRIMARY KEY("month","account","key")
) WITH (fillfactor = 50);
--> statement-breakpoint
CREATE TABLE "usage_provider" (
	"day" bigint NOT NULL,
	"provider" text COLLATE "C" NOT NULL,
	"channel" text COLLATE "C" NOT NULL,
	"model" text COLLATE "C" NOT NULL,
	"calls" bigint NOT NULL,
	"errors" bigint NOT NULL,
	"input_tokens" bigint NOT NULL,
	"output_tokens" bigint NOT NULL,
	"cost" bigint NOT NULL,
	"charged" bigint NOT NULL,
	"timed" bigint DEFAULT 0 NOT NULL,
	"ms" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "usage_provider_day_provider_channel_model_pk" PRIMARY KEY("day","provider","channel","model")
) WITH (fillfactor = 50);
--> statement-breakpoint
ALTER TABLE "account" ADD COLUMN "monthly_credit" bigint;--> statement-breakpoint
ALTER TABLE "usage_day" ADD COLUMN "timed" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_day" ADD COLUMN "ms" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_tag" ADD COLUMN "timed" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_tag" ADD COLUMN "ms" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_tag_total" ADD COLUMN "timed" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_tag_total" ADD COLUMN "ms" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_total" ADD COLUMN "timed" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_total" ADD COLUMN "ms" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
INSERT INTO usage_month (month, account, key, days, calls, errors, input_tokens, output_tokens, cost, charged)
  SELECT (extract(epoch FROM date_trunc('month', to_timestamp(day / 1000) AT TIME ZONE 'UTC')) * 1000)::bigint AS month, account, key,
    bit_or(1::bigint << (extract(day FROM to_timestamp(day / 1000) AT TIME ZONE 'UTC')::int - 1)), sum(calls), sum(errors),
    sum(input_tokens), sum(output_tokens), sum(cost), sum(charged)
  FROM usage_day GROUP BY 1, 2, 3;
