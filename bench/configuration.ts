// The configuration of a gateway whose provider is `upstream.ts`, in each protocol that it speaks.

/** `origin`: the provider's. */
export function configuration(origin: string): string {
  const model = (id: string) => `
  - id: ${id}
    price: { input: "0.10", output: "0.40" }
    context_length: 131072
    max_output_tokens: 8192`
  return `
providers:
  bench: { protocol: openai-chat, base_url: "${origin}/v1", api_key: bench }
  bench-claude: { protocol: anthropic-messages, base_url: "${origin}/v1", api_key: bench }
  bench-gemini: { protocol: gemini, base_url: "${origin}/v1", api_key: bench }
models:${['bench/fixed', 'bench/drip', 'bench-claude/fixed', 'bench-gemini/fixed'].map(model).join('')}
  - id: bench-route
    route: { to: [bench/fixed, bench/drip] }
`
}
