CREATE INDEX "top_up_created" ON "top_up" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "top_up_state_of" ON "top_up" USING btree ("state","created_at","id");--> statement-breakpoint
CREATE INDEX "top_up_processor" ON "top_up" USING btree ("processor","created_at","id");--> statement-breakpoint
CREATE INDEX "top_up_problem" ON "top_up" USING btree ("created_at","id") WHERE problem is not null;