DROP INDEX `call_upstream`;--> statement-breakpoint
CREATE INDEX `call_upstream` ON `call` (seq >> 12,`upstream_id`) WHERE upstream_id is not null;
