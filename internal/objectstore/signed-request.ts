import { createHash } from 'node:crypto';
import { type IncomingMessage, request as requestHttp, Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { AwsV4Signer } from 'aws4fetch';
import { formatDuration, type Clock } from '../clock/index.ts';
import { describeError } from '../errors/index.ts';
import { printable } from '../printable/index.ts';
import type { StoreCredentials } from './credentials.ts';
import { ObjectStoreError, type ObjectStoreCode } from './errors.ts';
import { textOf } from './xml.ts';

/** If a store neither sends nor accepts bytes for this long, it counts as unreachable. */
const IDLE_MS = 60_000;
const MAX_HEADER_BYTES = 16 * 1024;
const MAX_ERROR_BYTES = 64 * 1024;
const MAX_REASON = 300;
const NO_BYTES = new Uint8Array();

/** A bucket, and how its store is reached and trusted. Contains no secret. */
export interface Bucket {
  /** "https://HOST[:PORT]", or "http://…" for a store without TLS; no path. */
  readonly endpoint: string;
  /** The region, which is a part of each signature. */
  readonly region: string;
  readonly bucket: string;
  /** CA certificates (PEM) that verify the certificate of the store, in place of the CAs that the machine trusts. */
  readonly ca?: string | undefined;
}

/** A request to the bucket or to one object of it. */
export interface StoreRequest {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  /** Empty for the bucket itself. */
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
}

/** The bucket, credentials and timing of requests. */
export interface StoreConnection {
  readonly target: Bucket;
  readonly credentials: StoreCredentials;
  readonly clock: Clock;
  /** How long the store may be silent, in ms; default: a minute. */
  readonly idleMs?: number;
}

/**
 * Error codes of stores (Amazon S3, Ceph, MinIO and others) for which the HTTP status alone would give a wrong error
 * code, or none.
 */
const BY_STORE_CODE: Readonly<Record<string, ObjectStoreCode>> = {
  QuotaExceeded: 'objectstore-full',
  InsufficientStorage: 'objectstore-full',
  XMinioStorageFull: 'objectstore-full',
  XMinioAdminBucketQuotaExceeded: 'objectstore-full',
  SlowDown: 'objectstore-busy',
  RequestTimeout: 'objectstore-busy',
  AuthorizationHeaderMalformed: 'objectstore-refused',
  XAdminUserNotFound: 'objectstore-refused', // an unknown access key ID, with status 404
};
/** Codes of node:tls and OpenSSL for a certificate that was not accepted. */
const TLS_CODE =
  /^(ERR_TLS_CERT|CERT_|DEPTH_ZERO_SELF|SELF_SIGNED|UNABLE_TO_(GET_ISSUER|VERIFY)|HOSTNAME_MISMATCH)/;

/**
 * Sends one signed request (AWS signature, version 4) and passes a successful answer to `use`. The path contains the
 * bucket (path style). The signature covers the hash of the body. No redirect is followed, and no proxy of the
 * environment is used.
 * @throws ObjectStoreError
 */
export async function withAnswer<T>(
  { target, credentials, clock, idleMs = IDLE_MS }: StoreConnection,
  request: StoreRequest,
  use: (answer: IncomingMessage) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const { method, key = '', body = NO_BYTES } = request;
  const doing = `${method} ${target.endpoint}/${target.bucket}/${key}`;
  const { url, headers } = await sign(target, credentials, request, clock);
  const isTls = url.protocol === 'https:';
  const agent = isTls ? new HttpsAgent({ keepAlive: false }) : new HttpAgent({ keepAlive: false });
  const ca = target.ca === undefined ? {} : { ca: target.ca };
  const options = { ...ca, method, headers, agent, signal, timeout: idleMs, maxHeaderSize: MAX_HEADER_BYTES };
  try {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const sent = (isTls ? requestHttps : requestHttp)(url, options, resolve);
      // The timeout also applies while the body of the answer is read. The error then ends the read.
      sent.once('timeout', () =>
        sent.destroy(new Error(`the store was silent for ${formatDuration(idleMs)}`)),
      );
      sent.once('error', reject);
      sent.end(body);
    });
    // A reader of the answer gets the error. Without a reader, it does not matter that the store closed early.
    answer.on('error', () => undefined);
    if (!isSuccess(answer)) throw await refusalOf(doing, answer);
    return await use(answer);
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof ObjectStoreError) throw cause;
    const isUntrusted = Error.isError(cause) && 'code' in cause && TLS_CODE.test(String(cause.code));
    const code = isUntrusted ? 'objectstore-untrusted' : 'objectstore-unreachable';
    throw new ObjectStoreError(code, `${doing}: ${describeError(cause)}`, { cause });
  } finally {
    agent.destroy();
  }
}

/** Reads a whole body. @throws ObjectStoreError `objectstore-answer-invalid` if it is longer than `maxBytes` */
export async function readBody(answer: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const part of answer as AsyncIterable<Uint8Array>) {
    sizeBytes += part.length;
    if (sizeBytes > maxBytes)
      throw new ObjectStoreError('objectstore-answer-invalid', `an answer above ${maxBytes} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/**
 * The error for an answer of the store that is no success. The answer contains an untrusted text, which the error
 * quotes.
 */
export function errorOf(doing: string, status: number, xml: string): ObjectStoreError {
  const code = printable(textOf(xml, 'Code'), { maxChars: MAX_REASON });
  const reason = [code, printable(textOf(xml, 'Message'), { maxChars: MAX_REASON })].filter(
    (text) => text !== '',
  );
  return new ObjectStoreError(
    BY_STORE_CODE[code] ?? codeOfStatus(status),
    `${doing}: ${[`HTTP ${status}`, ...reason].join(': ')}`,
  );
}

async function sign(
  target: Bucket,
  { accessKeyId, secretAccessKey }: StoreCredentials,
  { method, key = '', query = {}, body = NO_BYTES }: StoreRequest,
  clock: Clock,
): Promise<{ readonly url: URL; readonly headers: Readonly<Record<string, string>> }> {
  const url = new URL(`${target.endpoint}/${target.bucket}${key === '' ? '' : `/${key}`}`);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const signed = await new AwsV4Signer({
    ...{ method, url: url.href, accessKeyId, secretAccessKey: secretAccessKey.reveal() },
    ...{ service: 's3', region: target.region },
    datetime: new Date(clock.nowMs()).toISOString().replace(/[:-]|\.[0-9]{3}/g, ''),
    headers: { 'x-amz-content-sha256': createHash('sha256').update(body).digest('hex') },
  }).sign();
  const headers = { ...Object.fromEntries(signed.headers), 'content-length': String(body.length) };
  return { url: signed.url, headers };
}

function isSuccess({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode >= 200 && statusCode < 300;
}

async function refusalOf(doing: string, answer: IncomingMessage): Promise<ObjectStoreError> {
  const { statusCode = 0, headers } = answer;
  if (statusCode >= 300 && statusCode < 400) {
    answer.destroy();
    const to = printable(headers.location ?? '', { maxChars: MAX_REASON });
    return new ObjectStoreError(
      'objectstore-redirected',
      `${doing}: HTTP ${statusCode} to ${JSON.stringify(to)}`,
    );
  }
  // If the body cannot be read, the error contains the status only.
  const body = await readBody(answer, MAX_ERROR_BYTES).catch(() => NO_BYTES);
  return errorOf(doing, statusCode, Buffer.from(body).toString('utf8'));
}

function codeOfStatus(status: number): ObjectStoreCode {
  if (status === 401 || status === 403) return 'objectstore-refused';
  if (status === 404) return 'objectstore-missing';
  if (status === 507) return 'objectstore-full';
  return status === 429 || status >= 500 ? 'objectstore-busy' : 'objectstore-answer-invalid';
}
