DROP INDEX `call_upstream`;--> statement-breakpoint
CREATE INDEX `call_upstream` ON `call` (seq >> 9,`upstream_id`) WHERE upstream_id is not null;
