import { createHash } from 'node:crypto';
import type { DocumentBodies } from '../../internal/ownerdocument/index.ts';

/** A document that an owner is to sign for a change. */
export type Proposal =
  | { readonly kind: 'grant'; readonly body: DocumentBodies['grant'] }
  | { readonly kind: 'readmission'; readonly body: DocumentBodies['readmission'] }
  | { readonly kind: 'operators'; readonly body: DocumentBodies['operators'] }
  /** The document has only a hash. The texts show an owner what it says: the active configuration, and the one to sign. */
  | { readonly kind: 'policy'; readonly before: string; readonly after: string };

/** The kind and body of the document. */
export function contentOf(proposal: Proposal) {
  if (proposal.kind !== 'policy') return { kind: proposal.kind, body: proposal.body };
  return { kind: proposal.kind, body: { configurationSha256: sha256Of(proposal.after) } };
}

/** SHA-256 of bytes or of a text in UTF-8, lower-case hex. */
export function sha256Of(content: Uint8Array | string): string {
  return createHash('sha256').update(content).digest('hex');
}
