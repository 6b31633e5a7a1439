// Hosts of open models. They run common inference servers and accept the parameters of those (the default of
// `quirks.passes`).

import { alsoDrops, bearer, noFixedAddress, openaiCompatible } from '../provider.ts'

/** Sampling parameters outside OpenAI's protocol, which providers that check their input refuse. */
export const openModelSampling = ['top_k', 'min_p', 'repetition_penalty'] as const

/** Parameters for other output than text, which providers without such output refuse or ignore. */
export const audioOutput = ['modalities', 'audio'] as const

const together = openaiCompatible({
  id: 'together',
  name: 'Together AI',
  baseUrl: 'https://api.together.xyz/v1',
  auth: bearer('TOGETHER_API_KEY'),
  quirks: { thinkTags: true, drops: alsoDrops(...audioOutput, 'prediction') },
})

const fireworks = openaiCompatible({
  id: 'fireworks',
  name: 'Fireworks AI',
  baseUrl: 'https://api.fireworks.ai/inference/v1',
  auth: bearer('FIREWORKS_API_KEY'),
  decisions: true,
  quirks: { thinkTags: true, reasoningEcho: 'reasoning_content', drops: alsoDrops(...audioOutput) },
})

const huggingface = openaiCompatible({
  id: 'huggingface',
  name: 'Hugging Face',
  baseUrl: 'https://router.huggingface.co/v1',
  auth: bearer('HF_TOKEN', 'HUGGINGFACE_API_KEY'),
  onDisconnect: 'drain',
  quirks: { thinkTags: true },
})

const nvidia = openaiCompatible({
  id: 'nvidia',
  name: 'NVIDIA NIM',
  baseUrl: 'https://integrate.api.nvidia.com/v1',
  auth: bearer('NVIDIA_API_KEY'),
  quirks: { thinkTags: true },
})

const sambanova = openaiCompatible({
  id: 'sambanova',
  name: 'SambaNova',
  baseUrl: 'https://api.sambanova.ai/v1',
  auth: bearer('SAMBANOVA_API_KEY'),
  onDisconnect: 'drain',
  quirks: {
    efforts: ['low', 'medium', 'high'],
    textParts: false,
    thinkTags: true,
    drops: alsoDrops(
      ...audioOutput,
      'min_p',
      'frequency_penalty',
      'presence_penalty',
      'seed',
      'logit_bias',
      'prediction',
      'user',
    ),
    refuses: ['n', 'logprobs'],
  },
})

const deepinfra = openaiCompatible({
  id: 'deepinfra',
  name: 'DeepInfra',
  baseUrl: 'https://api.deepinfra.com/v1/openai',
  auth: bearer('DEEPINFRA_API_KEY', 'DEEPINFRA_TOKEN'),
  quirks: { thinkTags: true },
})

const nebius = openaiCompatible({
  id: 'nebius',
  name: 'Nebius Token Factory',
  baseUrl: 'https://api.tokenfactory.nebius.com/v1',
  auth: bearer('NEBIUS_API_KEY'),
  onDisconnect: 'drain',
  quirks: { thinkTags: true },
})

const novita = openaiCompatible({
  id: 'novita',
  name: 'Novita AI',
  baseUrl: 'https://api.novita.ai/openai/v1',
  auth: bearer('NOVITA_API_KEY'),
  quirks: { thinkTags: true },
})

const hyperbolic = openaiCompatible({
  id: 'hyperbolic',
  name: 'Hyperbolic',
  baseUrl: 'https://api.hyperbolic.xyz/v1',
  auth: bearer('HYPERBOLIC_API_KEY'),
  quirks: { thinkTags: true },
})

const github = openaiCompatible({
  id: 'github',
  name: 'GitHub Models',
  baseUrl: 'https://models.github.ai/inference',
  auth: bearer('GITHUB_TOKEN'),
  quirks: { thinkTags: true, drops: alsoDrops(...openModelSampling) },
})

const cloudflare = openaiCompatible({
  id: 'cloudflare',
  name: 'Cloudflare Workers AI',
  // https://api.cloudflare.com/client/v4/accounts/<account>/ai/v1
  baseUrl: noFixedAddress,
  auth: bearer('CLOUDFLARE_API_TOKEN', 'CLOUDFLARE_API_KEY'),
  quirks: { thinkTags: true, textParts: false },
})

const databricks = openaiCompatible({
  id: 'databricks',
  name: 'Databricks',
  // https://<workspace>/serving-endpoints
  baseUrl: noFixedAddress,
  auth: bearer('DATABRICKS_TOKEN'),
})

export const openModelHosts = [
  together,
  fireworks,
  huggingface,
  nvidia,
  sambanova,
  deepinfra,
  nebius,
  novita,
  hyperbolic,
  github,
  cloudflare,
  databricks,
]
