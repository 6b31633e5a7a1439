import type { ReactNode } from 'react'

export function Panel({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div className="card p-5">
      <h1 className="mb-4 text-base font-semibold">{title}</h1>
      {children}
    </div>
  )
}
