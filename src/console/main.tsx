// The console: a single-page app that uses only the gateway's API.

import { QueryClientProvider } from '@tanstack/react-query'
import { createRoot } from 'react-dom/client'
import { Router } from 'wouter'
import { queryClient } from './api/queries.ts'
import { App } from './app.tsx'
import { loadStrings } from './strings/text.ts'

await loadStrings()
createRoot(document.getElementById('root')!).render(
  <QueryClientProvider client={queryClient}>
    <Router base="/console">
      <App />
    </Router>
  </QueryClientProvider>,
)
