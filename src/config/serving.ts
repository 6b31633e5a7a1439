// Settings of calls: time limits, buffers, sizes and rates.

import { z } from 'zod'
import { milliseconds, whole } from './fields.ts'

export const timeoutSettings = z
  .strictObject({
    connect_ms: milliseconds('Reaching a provider', 5_000),
    first_byte_ms: milliseconds("A provider's first byte", 60_000),
    first_byte_reasoning_ms: milliseconds('The first byte of a model that reasons', 600_000),
    gap_ms: milliseconds("Silence within a provider's answer", 60_000),
    tool_ms: milliseconds('One call of a tool that the gateway runs for a model', 30_000),
    total_ms: milliseconds('A whole call', 1_800_000),
    client_stall_ms: milliseconds('A client that takes no byte of its answer', 60_000),
    drain_ms: milliseconds('Reading a stream on for its exact usage after the client has left', 60_000),
    shutdown_ms: milliseconds('Waiting for calls in flight when the gateway stops', 600_000, 0),
  })
  .prefault({})

export const streamSettings = z
  .strictObject({
    keepalive_ms: milliseconds(
      'Silence after which a streaming client gets a keep-alive comment',
      15_000,
      100,
      300_000,
    ),
    buffer_bytes: whole(
      'The most that is buffered for a client that reads slowly',
      262_144,
      4096,
      64 * 1024 ** 2,
    ),
    total_buffer_bytes: whole(
      'The most that is buffered for all clients together; accounts with clients that read slowly have equal shares of it, and one share is left free',
      64 * 1024 ** 2,
      1024 ** 2,
      64 * 1024 ** 3,
    ),
    checkpoint_ms: milliseconds('How often the progress of a stream is made durable', 2_000, 50, 60_000),
    checkpoint_tokens: whole(
      'The output tokens after which the progress of a stream is made durable',
      1_000,
      1,
      1_000_000,
    ),
  })
  .prefault({})

export const limitSettings = z
  .strictObject({
    // Bun's fetch stops at 65,336 concurrent requests whatever the setting.
    max_connections_upstream: whole(
      'Requests to providers at one time; an account may have as many as are left free for all others',
      4_096,
      1,
      65_336,
    ),
    arrived_bytes: whole(
      'How much of the answers of providers may wait to be worked through before further providers are asked',
      4 * 1024 ** 2,
      65_536,
      64 * 1024 ** 3,
    ),
    requests_in_flight: whole(
      'Requests of models at one time; more are refused with 503. Simulated ones and those of test keys are counted apart, with the same limit',
      4_096,
      1,
      1_000_000,
    ),
    requests_in_flight_per_account: whole(
      'Requests of one account at one time; more are refused with 429. 0: as many as are left free for all others, which is half of `requests_in_flight` for an account that is alone',
      0,
      0,
      1_000_000,
    ),
    attempts: whole('Tries of one call, over all providers, before the first byte', 3, 1, 20),
    tool_calls: whole(
      'Calls of tools that the gateway runs for one request, where it names no `max_tool_calls`; a request may name up to 30',
      10,
      1,
      30,
    ),
    json_depth: whole('How deep the JSON of a request may nest', 64, 4, 1_000),
    // A generated image is one event, as base64, so a megabyte would be too little. The limit bounds the memory that a
    // malicious provider can take for each open stream.
    sse_event_bytes: whole(
      'The largest single event of a provider stream',
      8 * 1024 ** 2,
      4096,
      64 * 1024 ** 2,
    ),
    upstream_body_bytes: whole('The largest whole answer of a provider', 20 * 1024 * 1024, 4096, 1024 ** 3),
    upstream_stream_bytes: whole(
      'The largest streamed answer of a provider, all its events together; what was delivered of a larger one is charged',
      512 * 1024 ** 2,
      4096,
      64 * 1024 ** 3,
    ),
  })
  .prefault({})

export const rateLimitSettings = z
  .strictObject({
    key_requests_per_minute: whole('Requests of one key in a minute; 0 is no limit', 0, 0, 10_000_000),
    key_tokens_per_minute: whole('Tokens of one key in a minute; 0 is no limit', 0, 0, 1_000_000_000),
    free_bytes_per_minute: whole(
      'How much one account, or one network without a key, reads of lists of models, documentation and pages in a minute, bytes; 0 is no limit',
      64 * 1024 ** 2,
      0,
      1024 ** 4,
    ),
    account_requests_per_minute: whole(
      'Requests of one account in a minute; 0 is no limit',
      0,
      0,
      10_000_000,
    ),
  })
  .prefault({})
