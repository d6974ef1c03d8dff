import type { Certificate } from './certificate.ts';
import type { CertificateCache } from './certificate-cache.ts';
import { datesOf, X509Error } from './errors.ts';
import { checkCritical, EXTENSION } from './extensions.ts';
import { describeName, isIssuer } from './name.ts';
import { verifySignature } from './signature.ts';
import { allowsUsage } from './standard-extensions.ts';

/** Inputs of `verifyPath()`. */
interface PathOptions {
  /** The complete chain: leaf first, root last. */
  readonly chain: readonly Certificate[];
  /** Whether a root certificate is trusted, by its fingerprint or its public key. */
  readonly isPinned: (root: Certificate) => boolean;
  readonly atMs: number;
  /** OIDs of critical extensions of the leaf that the caller checks. */
  readonly leafCritical?: readonly string[];
  /** Caches verified signatures. */
  readonly cache?: CertificateCache;
}

const MAX_CHAIN = 8;
const KNOWN_CRITICAL = [EXTENSION.keyUsage, EXTENSION.basicConstraints];

/**
 * Verifies a chain from its leaf to a trusted root (RFC 5280 §6.1): CA flag, dates, path length, key usage, critical
 * extensions, signatures. Name constraints and policies are not supported; a critical extension that requires them is refused.
 * Neither node:crypto nor the packages that were evaluated check all of this.
 * @throws X509Error
 */
export function verifyPath(options: PathOptions): void {
  walkPath(options, 0);
}

/** Like `verifyPath()` for a chain that starts with a CA certificate instead of a leaf. */
export function verifyAuthorityPath(options: Omit<PathOptions, 'leafCritical'>): void {
  walkPath(options, 1);
}

/** `firstRank`: 0 if the chain starts with a leaf, 1 if it starts with a CA. */
function walkPath(options: PathOptions, firstRank: 0 | 1): void {
  const { chain, isPinned, atMs, leafCritical = [] } = options;
  const root = chain.at(-1);
  if (root === undefined || chain.length > MAX_CHAIN) {
    throw new X509Error('x509-chain-length', `verifying a chain: ${chain.length} certificates`);
  }
  if (!isPinned(root)) {
    throw new X509Error(
      'x509-root-untrusted',
      `verifying a chain: its root ${describeName(root.subject)} is not trusted`,
    );
  }
  for (const [index, certificate] of chain.entries()) {
    const issuer = chain[index + 1] ?? root;
    checkDates(certificate, atMs);
    const rank = index + firstRank;
    checkCritical(
      certificate.extensions,
      rank === 0 ? [...KNOWN_CRITICAL, ...leafCritical] : KNOWN_CRITICAL,
      nameOf(certificate),
    );
    checkRole(certificate, rank);
    checkIssued(certificate, issuer, options.cache);
  }
}

/**
 * Orders certificates: the leaf, its issuer, and so on to a self-signed one. Verifies nothing. Ends early if `pool` has no
 * issuer; `verifyPath()` then refuses the last certificate as root.
 */
export function buildChain(
  leaf: Certificate,
  pool: readonly Certificate[],
  cache?: CertificateCache,
): readonly Certificate[] {
  const chain = [leaf];
  for (let at = leaf; chain.length < MAX_CHAIN && !isIssuer(at, at);) {
    const issuer = findIssuer(at, pool, cache);
    if (issuer === undefined) break;
    chain.push(issuer);
    at = issuer;
  }
  return chain;
}

/**
 * Returns the issuer whose key signed, if several certificates have the right name. If none of them signed, returns the
 * first, so that its refusal is reported.
 */
function findIssuer(
  certificate: Certificate,
  pool: readonly Certificate[],
  cache: CertificateCache | undefined,
): Certificate | undefined {
  const named = pool.filter((each) => isIssuer(certificate, each));
  if (named.length < 2) return named[0];
  const signed = named.find((each) => {
    try {
      checkIssued(certificate, each, cache);
      return true;
    } catch (error) {
      if (error instanceof X509Error) return false;
      throw error;
    }
  });
  return signed ?? named[0];
}

function checkDates(certificate: Certificate, atMs: number): void {
  if (atMs < certificate.notBeforeMs) {
    throw new X509Error('x509-not-yet-valid', `verifying ${nameOf(certificate)}: not valid yet`, {
      details: datesOf('from', certificate.notBeforeMs, atMs),
    });
  }
  if (atMs > certificate.notAfterMs)
    throw new X509Error('x509-expired', `verifying ${nameOf(certificate)}: expired`, {
      details: datesOf('until', certificate.notAfterMs, atMs),
    });
}

/** The leaf must not be a CA; all others must be CAs with a sufficient path length. */
function checkRole(certificate: Certificate, rank: number): void {
  const { isCa, pathLength } = certificate;
  if (isCa !== rank > 0) {
    throw new X509Error(
      'x509-not-a-ca',
      `verifying ${nameOf(certificate)}: ${isCa ? 'the leaf is a CA' : 'not a CA'}`,
    );
  }
  if (!isCa) return;
  if (pathLength !== undefined && rank - 1 > pathLength) {
    throw new X509Error(
      'x509-path-length',
      `verifying ${nameOf(certificate)}: its path length is ${pathLength}`,
    );
  }
  if (!allowsUsage(certificate, 'keyCertSign')) {
    throw new X509Error(
      'x509-key-usage',
      `verifying ${nameOf(certificate)}: its key may not sign certificates`,
    );
  }
}

function checkIssued(
  certificate: Certificate,
  issuer: Certificate,
  cache: CertificateCache | undefined,
): void {
  if (!isIssuer(certificate, issuer)) {
    throw new X509Error(
      'x509-issuer-mismatch',
      `verifying ${nameOf(certificate)}: issued by ${describeName(certificate.issuer)}, not by ${nameOf(issuer)}`,
    );
  }
  if (cache?.isVerified(certificate, issuer) === true) return;
  verifySignature(certificate, issuer.publicKey, nameOf(certificate));
  cache?.setVerified(certificate, issuer);
}

function nameOf(certificate: Certificate): string {
  return `the certificate of ${describeName(certificate.subject) || '(no name)'}`;
}
