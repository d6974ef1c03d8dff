import type { CollateralItem } from '../../internal/attestation/collateral/index.ts';
import { withTimeout } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { AttestError } from './errors.ts';
import { documentsIn } from './inputs.ts';

/** Base URLs of the services of AMD and Intel; a mirror has the same layout. */
export interface CollateralServices {
  readonly amdKds: string;
  readonly intelPcs: string;
  readonly intelCertificates: string;
}

/** Arguments of `cluster attest collateral refresh`. */
export interface RefreshOptions {
  /** Intel platforms: FMSPC, 12 hex digits. */
  readonly fmspc: readonly string[];
  /** AMD products. */
  readonly product: readonly string[];
  readonly services: CollateralServices;
}

const MAX_DOCUMENT_BYTES = 1 << 20;
const ANSWER_MS = 30_000;
/** A certificate chain arrives percent-encoded in a header; three certificates take about 6 KiB. */
const MAX_CHAIN_LENGTH = 64 * 1024;

/** A URL, and the response header with the certificate chain of the signer. */
interface Source {
  readonly url: string;
  readonly chainHeader?: string;
}

/** The documents to fetch. AMD: KDS interface specification (57230), 3. Intel: PCS API v4. */
export function sourcesOf({ services, product, fmspc }: RefreshOptions): readonly Source[] {
  const { amdKds, intelPcs, intelCertificates } = services;
  const amd = product.flatMap((name) => [
    { url: `${amdKds}/vcek/v1/${name}/cert_chain` },
    { url: `${amdKds}/vcek/v1/${name}/crl` },
  ]);
  const pckCrl = (ca: string): Source => ({
    url: `${intelPcs}/sgx/certification/v4/pckcrl?ca=${ca}&encoding=der`,
    chainHeader: 'SGX-PCK-CRL-Issuer-Chain',
  });
  const intel: Source[] = fmspc.map((platform) => ({
    url: `${intelPcs}/tdx/certification/v4/tcb?fmspc=${platform}`,
    chainHeader: 'TCB-Info-Issuer-Chain',
  }));
  if (intel.length === 0) return amd;
  const identity = {
    url: `${intelPcs}/tdx/certification/v4/qe/identity`,
    chainHeader: 'SGX-Enclave-Identity-Issuer-Chain',
  };
  const rootCrl = { url: `${intelCertificates}/IntelSGXRootCA.der` };
  return [...amd, ...intel, identity, pckCrl('platform'), pckCrl('processor'), rootCrl];
}

/**
 * All documents of one response. Their form is checked here, their signatures by `verifyBundle()`.
 * @throws AttestError `attest-collateral-unreachable`
 */
export async function fetchDocuments(
  { url, chainHeader }: Source,
  options: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<readonly CollateralItem[]> {
  const limit = { what: `fetching ${url}`, ms: ANSWER_MS, ...options };
  const { bytes, chain } = await withTimeout(limit, async (signal) => {
    const response = await fetch(url, { signal });
    if (!response.ok) throw new Error(`HTTP status ${response.status}`);
    const header = chainHeader === undefined ? null : response.headers.get(chainHeader);
    if (chainHeader !== undefined && header === null) throw new Error(`no header ${chainHeader}`);
    return { bytes: await bodyOf(response), chain: header ?? '' };
  }).catch((cause: unknown) => {
    options.signal.throwIfAborted();
    throw new AttestError('attest-collateral-unreachable', `fetching ${url}`, { cause });
  });
  const text = chain.length > MAX_CHAIN_LENGTH ? '' : decodeChain(chain);
  const certificates = { name: `${chainHeader} of ${url}`, bytes: Buffer.from(text) };
  return [...documentsIn({ name: url, bytes }), ...(text === '' ? [] : documentsIn(certificates))];
}

/** A header that is not percent-encoded is returned unchanged; the parser then refuses it as a certificate. */
function decodeChain(header: string): string {
  try {
    return decodeURIComponent(header);
  } catch (error) {
    if (error instanceof URIError) return header;
    throw error;
  }
}

async function bodyOf(response: Response): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  const body = response.body as AsyncIterable<Uint8Array> | null;
  for await (const chunk of body ?? []) {
    sizeBytes += chunk.length;
    if (sizeBytes > MAX_DOCUMENT_BYTES) throw new Error(`more than ${MAX_DOCUMENT_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
