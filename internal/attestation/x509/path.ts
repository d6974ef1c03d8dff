import type { Certificate } from './certificate.ts';
import type { CertificateCache } from './certificate-cache.ts';
import { X509Error } from './errors.ts';
import { checkCritical, EXTENSION } from './extensions.ts';
import { describeName, isIssuer } from './name.ts';
import { verifySignature } from './signature.ts';
import { allowsUsage } from './standard-extensions.ts';

export interface PathOptions {
  /** Leaf first, root last, complete. */
  readonly chain: readonly Certificate[];
  /** Whether this very certificate is a root we trust; decide by its fingerprint or by its public key. */
  readonly isPinned: (root: Certificate) => boolean;
  readonly atMs: number;
  /** Critical extensions of the leaf that the caller checks by itself. */
  readonly leafCritical?: readonly string[];
  /** Remembers signatures that have been verified; see `CertificateCache`. */
  readonly cache?: CertificateCache;
}

const MAX_CHAIN = 8;
const KNOWN_CRITICAL = [EXTENSION.keyUsage, EXTENSION.basicConstraints];

/**
 * Verifies a chain from its leaf up to a pinned root (RFC 5280 §6.1, as far as machine evidence needs it: no name
 * constraints, no policies; a critical extension that asks for them is refused). Neither node nor the packages we
 * tried check the authority bit, dates, path length, key usage and critical extensions: all of it is done here.
 */
export function verifyPath(options: PathOptions): void {
  walkPath(options, 0);
}

/** The same for a chain that begins with an authority, as if a leaf stood below it. */
export function verifyAuthorityPath(options: Omit<PathOptions, 'leafCritical'>): void {
  walkPath(options, 1);
}

/** `firstRank`: how far the first certificate of the chain is from a leaf. */
function walkPath(options: PathOptions, firstRank: 0 | 1): void {
  const { chain, isPinned, atMs, leafCritical = [] } = options;
  const root = chain.at(-1);
  if (root === undefined || chain.length > MAX_CHAIN) {
    throw new X509Error('x509-chain-length', `verifying a chain: ${chain.length} certificates`);
  }
  if (!isPinned(root)) {
    throw new X509Error(
      'x509-root-untrusted',
      `verifying a chain: its root ${describeName(root.subject)} is not pinned`,
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
 * Puts certificates in order: the leaf, its issuer, and so on up to one that issued itself. Says nothing about trust.
 * Ends early where `pool` has no issuer; `verifyPath` then finds an unpinned root.
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

/** Several may carry the right name: the one whose key signed counts, else the first, so that its refusal is the one shown. */
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
    throw new X509Error('x509-not-yet-valid', `verifying ${nameOf(certificate)}: not valid yet`);
  }
  if (atMs > certificate.notAfterMs)
    throw new X509Error('x509-expired', `verifying ${nameOf(certificate)}: expired`);
}

/** The leaf is no authority; all others are, and allow as many authorities below them as there are. */
function checkRole(certificate: Certificate, rank: number): void {
  const { isCa, pathLength } = certificate;
  if (isCa !== rank > 0) {
    throw new X509Error(
      'x509-not-a-ca',
      `verifying ${nameOf(certificate)}: ${isCa ? 'the leaf is' : 'not'} an authority`,
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
