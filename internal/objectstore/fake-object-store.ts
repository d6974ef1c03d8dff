import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { AwsV4Signer } from 'aws4fetch';

/** A request that the store has received. */
export interface FakeRequest {
  readonly method: string;
  /** Empty for the bucket. */
  readonly key: string;
  readonly query: URLSearchParams;
  readonly body: Buffer;
}

/** Answers instead of the store. Returns false to let the store answer. */
type Fault = (request: FakeRequest, response: ServerResponse) => boolean;

/** The only access key that the store accepts. */
export const FAKE_ACCESS = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI-secret' };
/** The only bucket of the store. */
export const FAKE_BUCKET = 'backups';
const REGION = 'us-east-1';
const PAGE = 2;

/** An S3-compatible store in memory, with one bucket and one access key. It computes the signature of each request again. */
export class FakeObjectStore implements AsyncDisposable {
  readonly objects = new Map<string, Buffer>();
  /** Parts of unfinished uploads, by upload ID. */
  readonly uploads = new Map<string, { readonly key: string; readonly parts: Map<number, Buffer> }>();
  /** "METHOD KEY" of each request. */
  readonly requests: string[] = [];
  fault: Fault = () => false;
  /** Changes the bytes of an object before the store keeps them. */
  store: (bytes: Buffer) => Buffer = (bytes) => bytes;
  readonly #server;
  readonly #scheme: string;

  constructor(tls?: { readonly key: string; readonly cert: string }) {
    const listener = (request: IncomingMessage, response: ServerResponse) =>
      void this.#handle(request, response).catch(() => response.destroy());
    this.#server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
    this.#scheme = tls === undefined ? 'http' : 'https';
  }

  async start(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  get endpoint(): string {
    return `${this.#scheme}://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '' } = request;
    const url = new URL(request.url ?? '', this.endpoint);
    const [, bucket, ...rest] = url.pathname.split('/');
    const body = await buffer(request);
    const asked = { method, key: rest.join('/'), query: url.searchParams, body };
    this.requests.push(`${method} ${asked.key}`);
    if (this.fault(asked, response)) return;
    const refusal = await this.#refusal(request, url, body);
    if (refusal !== undefined) return refuse(response, 403, refusal);
    if (bucket !== FAKE_BUCKET) return refuse(response, 404, 'NoSuchBucket');
    this.#answer(asked, response);
  }

  async #refusal(request: IncomingMessage, url: URL, body: Buffer): Promise<string | undefined> {
    const { headers, method = '' } = request;
    const hash = String(headers['x-amz-content-sha256']);
    if (hash !== createHash('sha256').update(body).digest('hex')) return 'XAmzContentSHA256Mismatch';
    if (!headers.authorization?.includes(`Credential=${FAKE_ACCESS.accessKeyId}/`))
      return 'InvalidAccessKeyId';
    const signed = await new AwsV4Signer({
      ...{ method, url: url.href, ...FAKE_ACCESS, service: 's3', region: REGION },
      headers: { 'x-amz-content-sha256': hash },
      datetime: String(headers['x-amz-date']),
    }).sign();
    return signed.headers.get('authorization') === headers.authorization
      ? undefined
      : 'SignatureDoesNotMatch';
  }

  #answer({ method, key, query, body }: FakeRequest, response: ServerResponse): void {
    const uploadId = query.get('uploadId') ?? '';
    const upload = this.uploads.get(uploadId);
    if (key === '')
      return void response.end(query.has('uploads') ? this.#uploadsXml() : this.#listXml(query));
    if (method === 'POST' && query.has('uploads')) {
      const id = `upload-${this.uploads.size + 1}`;
      this.uploads.set(id, { key, parts: new Map() });
      return void response.end(
        `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
      );
    }
    if (uploadId !== '' && upload === undefined) return refuse(response, 404, 'NoSuchUpload');
    if (upload !== undefined) {
      if (method === 'PUT') {
        upload.parts.set(Number(query.get('partNumber')), this.store(body));
        return void response.setHeader('etag', `"${createHash('md5').update(body).digest('hex')}"`).end();
      }
      this.uploads.delete(uploadId);
      if (method === 'DELETE') return void response.writeHead(204).end();
      const numbers = [...body.toString().matchAll(/<PartNumber>(\d+)</g)].map(([, number]) =>
        Number(number),
      );
      this.objects.set(
        key,
        Buffer.concat(numbers.map((number) => upload.parts.get(number) ?? Buffer.alloc(0))),
      );
      return void response.end('<CompleteMultipartUploadResult></CompleteMultipartUploadResult>');
    }
    if (method === 'PUT') this.objects.set(key, this.store(body));
    if (method === 'DELETE') this.objects.delete(key);
    const found = this.objects.get(key);
    if (method === 'GET' && found === undefined) return refuse(response, 404, 'NoSuchKey');
    response.end(method === 'GET' ? found : '');
  }

  #listXml(query: URLSearchParams): string {
    const prefix = query.get('prefix') ?? '';
    const keys = [...this.objects.keys()].filter((key) => key.startsWith(prefix)).toSorted();
    const from = Number(query.get('continuation-token') ?? 0);
    const isTruncated = from + PAGE < keys.length;
    const contents = keys.slice(from, from + PAGE).map((key) => {
      const text = key.replaceAll('&', '&amp;');
      return `<Contents><Key>${text}</Key><Size>${this.objects.get(key)?.length}</Size></Contents>`;
    });
    const next = isTruncated ? `<NextContinuationToken>${from + PAGE}</NextContinuationToken>` : '';
    return `<ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${next}${contents.join('')}</ListBucketResult>`;
  }

  #uploadsXml(): string {
    const all = [...this.uploads].map(
      ([id, { key }]) => `<Upload><Key>${key}</Key><UploadId>${id}</UploadId></Upload>`,
    );
    return `<ListMultipartUploadsResult>${all.join('')}</ListMultipartUploadsResult>`;
  }
}

/** Answers as a store that refuses. */
export function refuse(response: ServerResponse, status: number, code: string): void {
  response
    .writeHead(status)
    .end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>Said by the store.</Message></Error>`);
}
