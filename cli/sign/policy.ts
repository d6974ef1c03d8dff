import { createHash } from 'node:crypto';
import type { DocumentSigner } from './document-signer.ts';

/** Signs a policy document over the exact bytes of a configuration; none without a signer. */
export function policyFor(signer: DocumentSigner | undefined, configuration: Uint8Array): Uint8Array[] {
  if (signer === undefined) return [];
  const configurationSha256 = createHash('sha256').update(configuration).digest('hex');
  return [signer.sign('policy', { configurationSha256 })];
}
