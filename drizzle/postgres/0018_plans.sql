ALTER TABLE "top_up" DROP CONSTRAINT "top_up_credited";--> statement-breakpoint
ALTER TABLE "subscription" ADD COLUMN "models" text COLLATE "C";--> statement-breakpoint
ALTER TABLE "subscription" ADD COLUMN "cancelled_at" bigint;--> statement-breakpoint
ALTER TABLE "subscription" ADD COLUMN "reminded_at" bigint;--> statement-breakpoint
ALTER TABLE "top_up" ADD COLUMN "plan" text COLLATE "C";--> statement-breakpoint
CREATE INDEX "subscription_ungranted" ON "subscription" USING btree ("starts_at") WHERE lot is null and source = 'weir.plan';--> statement-breakpoint
CREATE INDEX "subscription_unreminded" ON "subscription" USING btree ("ends_at") WHERE reminded_at is null and source = 'weir.plan';--> statement-breakpoint
ALTER TABLE "top_up" ADD CONSTRAINT "top_up_credited" CHECK (credited_at is null or (paid_at is not null
          and ((plan is null and test = (case when lot is null then 1 else 0 end)) or (plan is not null and lot is null))));