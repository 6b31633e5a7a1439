// Every error that a client can see, as one table; the error reference is made from it.

export type ErrorType =
  | 'invalid_request_error'
  | 'authentication_error'
  | 'billing_error'
  | 'permission_error'
  | 'not_found_error'
  | 'conflict_error'
  | 'rate_limit_error'
  | 'server_error'
  | 'provider_error'

export interface ErrorRow {
  readonly status: number
  readonly type: ErrorType
  /** Whether the same request may succeed later without anybody changing it. */
  readonly retryable: boolean
  readonly means: string
  readonly remedy: string
}

export const rows = {
  invalid_request: {
    status: 400,
    type: 'invalid_request_error',
    retryable: false,
    means: 'The request is malformed: its JSON cannot be read, or a field is missing or has a wrong value.',
    remedy: 'Correct the field that `param` names.',
  },
  invalid_model_id: {
    status: 400,
    type: 'invalid_request_error',
    retryable: false,
    means: 'The model id is not of the form `provider/model_name`.',
    remedy: 'Take an id from GET /v1/models.',
  },
  unsupported_parameter: {
    status: 400,
    type: 'invalid_request_error',
    retryable: false,
    means: 'The model or its provider cannot honour a parameter that must not be dropped.',
    remedy:
      'Remove the parameter that `param` names, or choose a model that lists it in supported_parameters.',
  },
  context_length_exceeded: {
    status: 400,
    type: 'invalid_request_error',
    retryable: false,
    means: "The messages and the requested output do not fit into the model's context window.",
    remedy: 'Shorten the messages, lower max_tokens, or choose a model with a larger context.',
  },
  wrong_endpoint: {
    status: 400,
    type: 'invalid_request_error',
    retryable: false,
    means: 'The body is meant for another endpoint, or the model does not serve this one.',
    remedy: 'Send the body to the endpoint that the message names.',
  },
  previous_response_not_found: {
    status: 400,
    type: 'invalid_request_error',
    retryable: false,
    means:
      'The response that `previous_response_id` names, or one that it continues, is not stored: it never was, it ' +
      'was deleted, it has expired, or it is of another account.',
    remedy: 'Send the conversation itself as input.',
  },
  invalid_ticket: {
    status: 400,
    type: 'invalid_request_error',
    retryable: false,
    means: 'The link has been used, its time is over, or it is not complete.',
    remedy: 'Ask for a new one; an operator makes one with weir accounts link.',
  },
  bad_signature: {
    status: 400,
    type: 'invalid_request_error',
    retryable: false,
    means: 'The message is not signed by the secret that is set here, or is too old. Nothing of it was used.',
    remedy: 'The operator checks that the webhook secret here and at the sender are the same.',
  },
  voucher_invalid: {
    status: 400,
    type: 'invalid_request_error',
    retryable: false,
    means: 'There is no voucher with this code, or it has expired or was revoked.',
    remedy: 'Check the code for mistyped characters, or ask whoever issued it.',
  },
  voucher_used: {
    status: 409,
    type: 'conflict_error',
    retryable: false,
    means: 'The voucher has been redeemed. Where this account has done so, `metadata.lot` is its credit.',
    remedy: 'A voucher is redeemed once; look at the credits of the account.',
  },
  url_not_allowed: {
    status: 400,
    type: 'invalid_request_error',
    retryable: false,
    means: 'A URL in the request points where the gateway must not go: a private address or another scheme.',
    remedy: 'Use a public http or https address, or send the content inline; operators can allow hosts.',
  },
  content_filtered: {
    status: 400,
    type: 'invalid_request_error',
    retryable: false,
    means: "The provider's content policy refused the prompt.",
    remedy: 'Change the prompt, or choose another model.',
  },
  guardrail_denied: {
    status: 403,
    type: 'permission_error',
    retryable: false,
    means:
      "A guardrail of this gateway's operator refused the request or its answer: `metadata.guardrail` names it, and " +
      '`metadata.code` says why in its own words. A refused answer is charged, since its provider has made it.',
    remedy: 'Change what the message says, or ask the operator.',
  },
  missing_api_key: {
    status: 401,
    type: 'authentication_error',
    retryable: false,
    means: 'The request carries no API key.',
    remedy: 'Send the header Authorization: Bearer <key>.',
  },
  invalid_api_key: {
    status: 401,
    type: 'authentication_error',
    retryable: false,
    means: 'The API key is not one of this gateway, or is mistyped.',
    remedy: 'Check the key for a missing character, or create a new one.',
  },
  api_key_revoked: {
    status: 401,
    type: 'authentication_error',
    retryable: false,
    means: 'The API key has been revoked.',
    remedy: 'Create a new key.',
  },
  api_key_expired: {
    status: 401,
    type: 'authentication_error',
    retryable: false,
    means: 'The API key has passed its expiry date.',
    remedy: 'Create a new key.',
  },
  api_key_paused: {
    status: 401,
    type: 'authentication_error',
    retryable: false,
    means: 'The API key is paused: its owner or an operator has stopped it for the time being.',
    remedy: 'Resume it in the console or with `weir keys resume`; its limits and its history are kept.',
  },
  not_signed_in: {
    status: 401,
    type: 'authentication_error',
    retryable: false,
    means: 'Nobody is signed in here: there is no session, or it has ended.',
    remedy: 'Sign in.',
  },
  sign_in_closed: {
    status: 403,
    type: 'permission_error',
    retryable: false,
    means: 'This gateway does not let people in this way (accounts.sign_in).',
    remedy: 'Sign in by the single sign-on.',
  },
  wrong_credentials: {
    status: 401,
    type: 'authentication_error',
    retryable: false,
    means: 'The e-mail address and the password, or the passkey, do not belong together.',
    remedy: 'Check both, or reset the password.',
  },
  purchased_credits_required: {
    status: 402,
    type: 'billing_error',
    retryable: false,
    means: 'The account has no purchased credit; API calls are paid from purchased credit alone.',
    remedy: 'Top up the account.',
  },
  insufficient_credits: {
    status: 402,
    type: 'billing_error',
    retryable: false,
    means:
      'The credit that may pay for this call does not cover its prompt and the fewest tokens of output that its provider takes as a limit: one for most.',
    remedy: 'Top up, shorten the prompt, or choose a cheaper model.',
  },
  credits_reserved: {
    status: 402,
    type: 'billing_error',
    retryable: true,
    means: "The credit, or the rest of the key's limit, is there, but calls in flight have reserved it.",
    remedy: 'Wait for them to finish and try again after Retry-After seconds.',
  },
  plan_required: {
    status: 403,
    type: 'permission_error',
    retryable: false,
    means:
      'The model is a premium model, open to accounts with purchased credit (in the app: or a subscription).',
    remedy: 'Top up the account, or choose a model whose access is open.',
  },
  key_limit_exceeded: {
    status: 403,
    type: 'permission_error',
    retryable: false,
    means: 'The spend limit of this API key is reached.',
    remedy: 'Wait until `resets_at`, or raise the limit of the key.',
  },
  budget_exceeded: {
    status: 403,
    type: 'permission_error',
    retryable: false,
    means: 'A budget of the group that this API key was made in does not cover the call.',
    remedy: 'Wait until `resets_at`, or ask whoever manages the group to raise the budget.',
  },
  model_not_allowed: {
    status: 403,
    type: 'permission_error',
    retryable: false,
    means: 'This API key may not use this model.',
    remedy: "Use a model from the key's list, or another key.",
  },
  account_suspended: {
    status: 403,
    type: 'permission_error',
    retryable: false,
    means: 'The account is suspended.',
    remedy: 'Ask the operator of this gateway.',
  },
  identity_not_linked: {
    status: 403,
    type: 'permission_error',
    retryable: false,
    means: 'There is an account with this address, and the single sign-on has not been linked to it.',
    remedy: 'Sign in to the account, then link the single sign-on in the settings of the console.',
  },
  network_not_allowed: {
    status: 403,
    type: 'permission_error',
    retryable: false,
    means: 'This API key may not be used from the address that the request came from.',
    remedy: 'Call from one of the networks of the key, or change them in the console.',
  },
  sign_up_closed: {
    status: 403,
    type: 'permission_error',
    retryable: false,
    means: 'Accounts cannot be opened here without an invitation.',
    remedy: 'Ask the operator of this gateway for an invitation.',
  },
  elevation_required: {
    status: 403,
    type: 'permission_error',
    retryable: false,
    means: 'This needs a proof of identity from the last ten minutes.',
    remedy: 'Confirm with the password or a passkey (POST /console/api/elevate), then repeat it.',
  },
  operator_required: {
    status: 403,
    type: 'permission_error',
    retryable: false,
    means: 'Only operators may do this.',
    remedy: 'Ask an operator of this gateway.',
  },
  origin_not_allowed: {
    status: 403,
    type: 'permission_error',
    retryable: false,
    means: 'The request does not come from a page of this gateway.',
    remedy: 'Open the console at the address of the gateway; the operator sets server.public_url.',
  },
  model_not_found: {
    status: 404,
    type: 'not_found_error',
    retryable: false,
    means: 'No model has this id, or it has no price and is therefore not sold.',
    remedy: 'Choose one of the ids that the message names, or see GET /v1/models.',
  },
  model_unavailable: {
    status: 404,
    type: 'not_found_error',
    retryable: false,
    means:
      'The provider of this model does not know it, or does not offer it to the account of this gateway.',
    remedy: 'Choose another model; the operator checks the name at the provider (weir doctor --provider).',
  },
  model_retired: {
    status: 404,
    type: 'not_found_error',
    retryable: false,
    means: 'The provider has retired this model.',
    remedy: 'Use the successor that the message names.',
  },
  not_found: {
    status: 404,
    type: 'not_found_error',
    retryable: false,
    means: 'Nothing is here: no such route, or no such object for this account.',
    remedy: 'Check the path and the id.',
  },
  method_not_allowed: {
    status: 405,
    type: 'invalid_request_error',
    retryable: false,
    means: 'The path takes other methods.',
    remedy: 'Use one of the methods that the header `allow` names.',
  },
  websocket_disabled: {
    status: 426,
    type: 'invalid_request_error',
    retryable: false,
    means: 'This gateway does not serve responses over a WebSocket.',
    remedy: 'Send them to POST /v1/responses with `stream: true`.',
  },
  idempotency_conflict: {
    status: 409,
    type: 'conflict_error',
    retryable: false,
    means: 'The Idempotency-Key, or the id of the request, stands for another request or has been used.',
    remedy:
      'Use a new one for a new request. If an answer was lost, look at what the first request has made.',
  },
  idempotency_in_progress: {
    status: 409,
    type: 'conflict_error',
    retryable: true,
    means: 'The first request with this Idempotency-Key is still running.',
    remedy: 'Try again after Retry-After seconds to receive its answer.',
  },
  idempotency_answer_lost: {
    status: 409,
    type: 'conflict_error',
    retryable: false,
    means:
      'The first request with this Idempotency-Key was served and charged, but its answer is not there any more: ' +
      'it was too large to keep, or was cut short.',
    remedy:
      'Read the receipt at GET /v1/generation with the id in `metadata.generation`; use a new key to ask again.',
  },
  configuration_changed: {
    status: 409,
    type: 'conflict_error',
    retryable: false,
    means: 'The settings were changed since they were read, by somebody else or in another window.',
    remedy: 'Read them again (GET /admin/v1/config), and repeat the change with their `revision`.',
  },
  key_replaced: {
    status: 409,
    type: 'conflict_error',
    retryable: false,
    means: 'The API key has been replaced already.',
    remedy: 'Use its successor, or replace that one.',
  },
  payload_too_large: {
    status: 413,
    type: 'invalid_request_error',
    retryable: false,
    means: 'The body is larger than this gateway accepts.',
    remedy: 'Send less, or have the operator raise server.max_body_bytes.',
  },
  unsupported_media_type: {
    status: 415,
    type: 'invalid_request_error',
    retryable: false,
    means: 'The body is not plain JSON: another content type, or compressed.',
    remedy: 'Send Content-Type: application/json without Content-Encoding.',
  },
  headers_too_large: {
    status: 431,
    type: 'invalid_request_error',
    retryable: false,
    means: 'The request headers are larger than this gateway accepts.',
    remedy: 'Send smaller headers.',
  },
  rate_limit_exceeded: {
    status: 429,
    type: 'rate_limit_error',
    retryable: true,
    means: 'Too many requests from this key or account.',
    remedy: 'Slow down; try again after Retry-After seconds.',
  },
  upstream_rate_limited: {
    status: 429,
    type: 'rate_limit_error',
    retryable: true,
    means: 'Every provider that serves this model is limiting our rate.',
    remedy: 'Try again after Retry-After seconds, or name fallbacks in models[].',
  },
  client_gone: {
    status: 499,
    type: 'invalid_request_error',
    retryable: false,
    means:
      'The client disconnected before its answer began. Where a provider had been asked already, the prompt is charged.',
    remedy: 'Wait for the answer, or send on_disconnect: "finish" to have it made for whoever asks again.',
  },
  internal_error: {
    status: 500,
    type: 'server_error',
    retryable: true,
    means: 'The gateway failed. Nothing is charged for an answer that was not delivered.',
    remedy: 'Try again; report the request id if it persists.',
  },
  upstream_error: {
    status: 502,
    type: 'provider_error',
    retryable: true,
    means: 'The provider failed, or its answer could not be understood or broke off.',
    remedy: 'Try again, or name fallbacks in models[].',
  },
  unusable_answer: {
    status: 502,
    type: 'provider_error',
    retryable: true,
    means:
      'The model spoiled its answer, such as by a tool call that cannot be read. What its provider counted is charged, ' +
      'whether the answer was streamed or not.',
    remedy: 'Try again; where it persists, simplify the tools or ask another model.',
  },
  upstream_refused_credentials: {
    status: 502,
    type: 'provider_error',
    retryable: false,
    means: "The provider refused the gateway's own key or account: not the caller's fault.",
    remedy: 'The operator checks the provider key (weir doctor).',
  },
  guardrail_failed: {
    status: 502,
    type: 'server_error',
    retryable: true,
    means:
      "A guardrail of this gateway's operator did not answer, or not as it should, so nothing was let through. An answer " +
      'that had been made is charged.',
    remedy:
      'Try again; where it persists, the operator looks after the hook that `metadata.guardrail` names.',
  },
  payment_processor_error: {
    status: 502,
    type: 'server_error',
    retryable: true,
    means:
      'The payment processor did not answer, or gave an answer that cannot be used. Nothing was charged here.',
    remedy:
      'Try again with the same Idempotency-Key; what was paid is credited as soon as the processor says so.',
  },
  no_provider_available: {
    status: 503,
    type: 'provider_error',
    retryable: true,
    means:
      'No provider that serves this model is set up here, or all of them have failed repeatedly a moment ago.',
    remedy:
      'Try again after Retry-After seconds where `metadata.retryable` is true; where it is false choose another ' +
      'model: the operator checks weir doctor.',
  },
  overloaded: {
    status: 503,
    type: 'server_error',
    retryable: true,
    means: 'The gateway or the provider is at its limit, or the gateway is shutting down.',
    remedy: 'Try again after Retry-After seconds.',
  },
  store_unavailable: {
    status: 503,
    type: 'server_error',
    retryable: true,
    means: 'The database cannot be written, so no call can be paid for. No credit is touched.',
    remedy: 'Try again after Retry-After seconds; the operator checks disk and database.',
  },
  upstream_timeout: {
    status: 504,
    type: 'provider_error',
    retryable: true,
    means: 'The provider did not answer in time.',
    remedy: 'Try again, or name fallbacks in models[].',
  },
} as const satisfies Record<string, ErrorRow>
