ALTER TABLE `api_key` ADD `paused_at` integer;--> statement-breakpoint
ALTER TABLE `api_key` ADD `paused_by` text;
