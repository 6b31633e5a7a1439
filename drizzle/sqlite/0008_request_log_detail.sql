ALTER TABLE `request_log` ADD `detail` text;--> statement-breakpoint
ALTER TABLE `request_log` ADD `contents` text;--> statement-breakpoint
CREATE INDEX `request_log_request` ON `request_log` (`request_id`);--> statement-breakpoint
CREATE INDEX `request_log_code` ON `request_log` (`account`,`code`,`at`) WHERE code is not null;
