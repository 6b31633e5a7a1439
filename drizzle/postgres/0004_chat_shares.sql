ALTER TABLE "conversation" ADD COLUMN "share_token" text COLLATE "C";--> statement-breakpoint
ALTER TABLE "conversation" ADD COLUMN "share_response" text COLLATE "C";--> statement-breakpoint
ALTER TABLE "conversation" ADD COLUMN "share_at" bigint;--> statement-breakpoint
CREATE UNIQUE INDEX "conversation_share" ON "conversation" USING btree ("share_token");