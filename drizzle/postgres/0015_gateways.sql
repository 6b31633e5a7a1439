CREATE TABLE "imported_catalog" (
	"revision" bigint PRIMARY KEY NOT NULL,
	"at" bigint NOT NULL,
	"file" text COLLATE "C"
);
--> statement-breakpoint
ALTER TABLE "chain" ADD COLUMN "program" text COLLATE "C" DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "chain" ADD COLUMN "migrations" bigint DEFAULT 15 NOT NULL;