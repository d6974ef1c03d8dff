import { AMD_AUTHORITIES, ARK_FINGERPRINTS } from './amd-authorities.ts';
import type { SnpTrust } from './verify-report.ts';

/** The real roots and CAs of AMD. Tests use their own roots. */
export function amdTrust(): SnpTrust {
  const authorities = Object.values(AMD_AUTHORITIES).flat();
  return {
    roots: ARK_FINGERPRINTS,
    authorities: authorities.map((base64) => new Uint8Array(Buffer.from(base64, 'base64'))),
  };
}
