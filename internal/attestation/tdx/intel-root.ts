/**
 * Intel's SGX root, which is also the root for TDX (certificates.trustedservices.intel.com/IntelSGXRootCA.der). Taken from
 * `src/TrustedRootCA.der` of the sdist dcap-qvl 0.7.0 (MIT); byte for byte `verify/trusted_root.pem` of
 * github.com/google/go-tdx-guest v0.3.1 (Apache-2.0). Public data: a name, a key and a signature.
 */
import type { TdxTrust } from './verify-quote.ts';

/** SHA-256 of the trusted root certificate. */
export const INTEL_ROOT_FINGERPRINT = '44a0196b2b99f889b8e149e95b807a350e7424964399e885a7cbb8ccfab674d3';

/** The real root of Intel. Tests use their own root. */
export function intelTrust(): TdxTrust {
  return { roots: new Set([INTEL_ROOT_FINGERPRINT]) };
}
