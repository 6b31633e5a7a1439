ALTER TABLE `conversation` ADD `share_token` text;--> statement-breakpoint
ALTER TABLE `conversation` ADD `share_response` text;--> statement-breakpoint
ALTER TABLE `conversation` ADD `share_at` integer;--> statement-breakpoint
CREATE UNIQUE INDEX `conversation_share` ON `conversation` (`share_token`);
