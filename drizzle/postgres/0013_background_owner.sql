ALTER TABLE "background" ADD COLUMN "owner" text COLLATE "C";--> statement-breakpoint
CREATE INDEX "background_running" ON "background" USING btree ("owner") WHERE status = 'running';