DROP INDEX "lot_expiry";--> statement-breakpoint
ALTER TABLE "usage_provider" DROP CONSTRAINT "usage_provider_day_provider_channel_model_pk";--> statement-breakpoint
ALTER TABLE "usage_provider" ADD COLUMN "chain" bigint NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_provider" ADD CONSTRAINT "usage_provider_day_provider_channel_model_chain_pk" PRIMARY KEY("day","provider","channel","model","chain");--> statement-breakpoint
CREATE INDEX "lot_expiry" ON "lot" USING btree ("expires_at") WHERE live = 1 and expires_at is not null;
