import { readFileSync } from 'node:fs';

/** A file of `internal/attestation/KIND/fixtures`; their README says where each comes from. */
export function readFixture(kind: 'eventlog' | 'snp' | 'tdx' | 'tpm', name: string): Uint8Array {
  return new Uint8Array(readFileSync(new URL(`../../attestation/${kind}/fixtures/${name}`, import.meta.url)));
}
