CREATE TABLE "provisioned" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"kind" text COLLATE "C" NOT NULL,
	"user_name" text COLLATE "C",
	"external_id" text COLLATE "C",
	"attributes" text COLLATE "C" NOT NULL,
	"changed_at" bigint NOT NULL,
	CONSTRAINT "provisioned_kind" CHECK (kind in ('user', 'group'))
);
--> statement-breakpoint
ALTER TABLE "management_key" ADD COLUMN "scope" text COLLATE "C";--> statement-breakpoint
CREATE INDEX "provisioned_user_name" ON "provisioned" USING btree ("user_name") WHERE user_name is not null;--> statement-breakpoint
CREATE INDEX "provisioned_external_id" ON "provisioned" USING btree ("external_id") WHERE external_id is not null;