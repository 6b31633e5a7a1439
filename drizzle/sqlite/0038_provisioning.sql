CREATE TABLE `provisioned` (
	`id` text PRIMARY KEY NOT NULL,
	`kind` text NOT NULL,
	`user_name` text,
	`external_id` text,
	`attributes` text NOT NULL,
	`changed_at` integer NOT NULL,
	CONSTRAINT "provisioned_kind" CHECK(kind in ('user', 'group'))
) STRICT;
--> statement-breakpoint
CREATE INDEX `provisioned_user_name` ON `provisioned` (`user_name`) WHERE user_name is not null;--> statement-breakpoint
CREATE INDEX `provisioned_external_id` ON `provisioned` (`external_id`) WHERE external_id is not null;--> statement-breakpoint
ALTER TABLE `management_key` ADD `scope` text;
