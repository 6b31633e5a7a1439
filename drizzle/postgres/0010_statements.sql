CREATE INDEX "call_ended" ON "call" USING brin ("ended_at") WITH (autosummarize=true);--> statement-breakpoint
CREATE INDEX "journal_account" ON "journal" USING btree ("account","version") WHERE version is not null;--> statement-breakpoint
CREATE INDEX "journal_at" ON "journal" USING brin ("at") WITH (autosummarize=true);