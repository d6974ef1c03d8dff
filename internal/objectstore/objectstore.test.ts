import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../clock/index.ts';
import { describeError, findCoded } from '../errors/index.ts';
import { DiskStreams } from '../file/index.ts';
import { createCaCertPem, generateKeyPem, KeyCertificateSigner, pubKeyDerOf } from '../pki/index.ts';
import { Secret } from '../secret/index.ts';
import { closeOpened, opened } from '../testing/index.ts';
import { FAKE_ACCESS, FAKE_BUCKET, FakeObjectStore, refuse } from './fake-object-store.ts';
import { ObjectStore, parseStoreCredentials, renderStoreCredentials } from './index.ts';
import type { Bucket } from './signed-request.ts';

const PART = 10_000;
const KEY = 'blue/cluster/node/one.backup';
const { signal } = new AbortController();
const target = { region: 'us-east-1', bucket: FAKE_BUCKET };

let store: FakeObjectStore;
let directory: string;
/** How long the client has waited between attempts, in ms. Requests themselves never reach their limit. */
let waitedMs: number;
/** A clock on which pauses between attempts end at once, and timeouts of requests never end. */
const clock: Clock = {
  nowMs: () => 1_800_000_000_000,
  monotonicMs: () => 0,
  sleep: (ms, until) => {
    if (ms < 60_000) {
      waitedMs += ms;
      return Promise.resolve();
    }
    return new Promise((_, reject) =>
      until.addEventListener('abort', () => reject(until.reason as Error), { once: true }),
    );
  },
};

beforeEach(async () => {
  waitedMs = 0;
  store = opened(await new FakeObjectStore().start());
  directory = await mkdtemp(join(tmpdir(), 'object-store-'));
});
afterEach(async () => {
  await closeOpened();
  await rm(directory, { recursive: true, force: true });
});

function client(
  change: Partial<Bucket> & {
    readonly secret?: string;
    readonly idleMs?: number;
    readonly clock?: Clock;
  } = {},
) {
  const { secret = FAKE_ACCESS.secretAccessKey, idleMs = 5_000, clock: at = clock, ...rest } = change;
  return new ObjectStore({
    ...{ target: { endpoint: store.endpoint, ...target, ...rest }, clock: at, streams: new DiskStreams() },
    credentials: { accessKeyId: FAKE_ACCESS.accessKeyId, secretAccessKey: new Secret(secret) },
    ...{ partBytes: PART, idleMs },
  });
}

/** A file on disk. */
async function fileOf(bytes: Uint8Array) {
  const path = join(directory, 'file');
  await writeFile(path, bytes);
  return { path, sizeBytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
}

async function refusalOf(work: Promise<unknown>): Promise<{ code: string | undefined; text: string }> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  return { code: findCoded(error)?.code, text: describeError(error) };
}

async function contentOf(key: string): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  await client().read(key, signal, async (chunk) => chunks.push(chunk) > 0);
  return Buffer.concat(chunks);
}

describe('ObjectStore', () => {
  test.each([
    { name: 'a small file in one request', sizeBytes: PART, puts: 1 },
    { name: 'a large file in parts', sizeBytes: 3 * PART + 1, puts: 4 },
    { name: 'an empty file', sizeBytes: 0, puts: 1 },
  ])('put() uploads $name and reads it back', async ({ sizeBytes, puts }) => {
    const bytes = randomBytes(sizeBytes);
    await client().put(KEY, await fileOf(bytes), signal);
    expect(store.objects.get(KEY)?.equals(bytes)).toBe(true);
    expect(store.requests.filter((each) => each.startsWith('PUT'))).toHaveLength(puts);
    expect(store.requests.at(-1)).toBe(`GET ${KEY}`);
    expect((await contentOf(KEY)).equals(bytes)).toBe(true);
  });

  test('list() follows pages and decodes keys; remove() deletes', async () => {
    for (const key of ['blue/a', 'blue/b&c', 'blue/d', 'red/e']) store.objects.set(key, Buffer.from(key));
    expect(await client().list('blue/', signal)).toEqual([
      { key: 'blue/a', sizeBytes: 6 },
      { key: 'blue/b&c', sizeBytes: 8 },
      { key: 'blue/d', sizeBytes: 6 },
    ]);
    await client().remove('blue/a', signal);
    expect(store.objects.has('blue/a')).toBe(false);
  });

  test.each([
    { name: 'stores nothing', change: () => Buffer.alloc(0) },
    { name: 'stores other bytes', change: (bytes: Buffer) => Buffer.from(bytes).fill(0, 0, 1) },
    { name: 'stores more', change: (bytes: Buffer) => Buffer.concat([bytes, bytes]) },
  ])('put() refuses and deletes an object when the store answers success and $name', async ({ change }) => {
    store.store = change;
    const file = await fileOf(Buffer.from('a backup'));
    expect((await refusalOf(client().put(KEY, file, signal))).code).toBe('objectstore-differs');
    expect(store.objects.has(KEY)).toBe(false);
  });

  test('put() refuses a file that is shorter than the given size', async () => {
    const file = { ...(await fileOf(randomBytes(PART + 5))), sizeBytes: 2 * PART };
    expect((await refusalOf(client().put(KEY, file, signal))).code).toBe('objectstore-differs');
    expect([...store.objects, ...store.uploads]).toEqual([]);
  });

  test('put() sends a part again after the connection was cut, and after a moment of overload', async () => {
    let faults = 0;
    store.fault = ({ method, query }, response) => {
      if (method !== 'PUT' || query.get('partNumber') !== '2' || faults++ >= 2) return false;
      if (faults === 1) response.destroy();
      else refuse(response, 503, 'SlowDown');
      return true;
    };
    const bytes = randomBytes(3 * PART);
    await client().put(KEY, await fileOf(bytes), signal);
    expect(store.objects.get(KEY)?.equals(bytes)).toBe(true);
    expect(waitedMs).toBe(3_000);
  });

  test('put() gives up after three attempts and leaves no parts', async () => {
    store.fault = ({ query }, response) => {
      if (query.get('partNumber') === '2') response.destroy();
      return query.get('partNumber') === '2';
    };
    expect((await refusalOf(client().put(KEY, await fileOf(randomBytes(2 * PART)), signal))).code).toBe(
      'objectstore-unreachable',
    );
    expect(store.requests.filter((each) => each === `PUT ${KEY}`)).toHaveLength(4);
    expect([...store.uploads, ...store.objects]).toEqual([]);
  });

  test('put() fails when the body of a response with status 200 contains an error', async () => {
    store.fault = ({ method, query }, response) => {
      if (method !== 'POST' || !query.has('uploadId')) return false;
      response.end('<Error><Code>QuotaExceeded</Code><Message>No space.</Message></Error>');
      return true;
    };
    const refusal = await refusalOf(client().put(KEY, await fileOf(randomBytes(2 * PART)), signal));
    expect(refusal.code).toBe('objectstore-full');
    expect([...store.uploads, ...store.objects]).toEqual([]);
  });

  test('removeUnfinished() deletes the parts that an interrupted upload left, and no others', async () => {
    store.uploads.set('ours', { key: KEY, parts: new Map() });
    store.uploads.set('theirs', { key: 'red/other', parts: new Map() });
    await client().removeUnfinished('blue/cluster/node/', signal);
    expect([...store.uploads.keys()]).toEqual(['theirs']);
  });

  test.each([
    { status: 403, code: 'SignatureDoesNotMatch', want: 'objectstore-refused' },
    { status: 403, code: 'AccessDenied', want: 'objectstore-refused' },
    { status: 403, code: 'QuotaExceeded', want: 'objectstore-full' },
    { status: 400, code: 'AuthorizationHeaderMalformed', want: 'objectstore-refused' },
    { status: 400, code: 'XMinioAdminBucketQuotaExceeded', want: 'objectstore-full' },
    { status: 400, code: 'InvalidRequest', want: 'objectstore-answer-invalid' },
    { status: 404, code: 'XAdminUserNotFound', want: 'objectstore-refused' },
    { status: 404, code: 'NoSuchBucket', want: 'objectstore-missing' },
    { status: 500, code: 'InternalError', want: 'objectstore-busy' },
    { status: 503, code: 'SlowDown', want: 'objectstore-busy' },
    { status: 507, code: '', want: 'objectstore-full' },
  ])(
    'maps HTTP status $status with store code "$code" to $want, and quotes both',
    async ({ status, code, want }) => {
      store.fault = (_, response) => {
        refuse(response, status, code);
        return true;
      };
      const refusal = await refusalOf(client().list('', signal));
      expect(refusal.code).toBe(want);
      expect(refusal.text).toContain(`HTTP ${status}: ${code}`);
    },
  );

  test('a wrong secret access key gives objectstore-refused, and no message contains the key', async () => {
    const secret = 'a-wrong-secret-access-key';
    const refusal = await refusalOf(client({ secret }).list('', signal));
    expect(refusal.code).toBe('objectstore-refused');
    expect(refusal.text).toContain('SignatureDoesNotMatch');
    expect(refusal.text).not.toContain(secret);
  });

  test('a bucket that does not exist gives objectstore-missing', async () => {
    expect((await refusalOf(client({ bucket: 'other' }).list('', signal))).code).toBe('objectstore-missing');
  });

  test.each([301, 302, 307, 308])(
    'a redirect (%i) is refused, and the other host gets no request',
    async (status) => {
      const other = opened(await new FakeObjectStore().start());
      store.fault = (_, response) => {
        response.writeHead(status, { location: `${other.endpoint}/${FAKE_BUCKET}/` }).end();
        return true;
      };
      const refusal = await refusalOf(client().list('', signal));
      expect(refusal.code).toBe('objectstore-redirected');
      expect(refusal.text).toContain(other.endpoint);
      expect(other.requests).toEqual([]);
    },
  );

  test('a request fails when the store is silent for too long, before or in the middle of an answer', async () => {
    store.fault = () => true;
    expect((await refusalOf(client({ idleMs: 50 }).list('', signal))).code).toBe('objectstore-unreachable');
    store.fault = (_, response) => {
      response.write('<ListBucketResult>');
      return true;
    };
    expect((await refusalOf(client({ idleMs: 50 }).list('', signal))).code).toBe('objectstore-unreachable');
  });

  test('a request fails after ten minutes even if the store sends some bytes again and again', async () => {
    store.fault = (_, response) => {
      const trickle = setInterval(() => response.write(' '), 5);
      response.once('close', () => clearInterval(trickle));
      return true;
    };
    const late: Clock = { ...clock, sleep: (ms) => (ms === 600_000 ? delay(100) : Promise.resolve()) };
    const refusal = await refusalOf(client({ clock: late, idleMs: 50 }).list('', signal));
    expect(refusal.code).toBe('objectstore-unreachable');
    expect(refusal.text).toContain('timed out after 10m');
  });

  test('list() fails when the connection breaks in the middle of an answer', async () => {
    store.fault = (_, response) => {
      response.writeHead(200, { 'content-length': 1000 }).write('<ListBucketResult>');
      response.destroy();
      return true;
    };
    expect((await refusalOf(client().list('', signal))).code).toBe('objectstore-unreachable');
  });

  test.each([
    { name: 'that is too large', answer: '<ListBucketResult>'.repeat(400_000) },
    { name: 'of a server that is no S3 store', answer: '<html>Welcome</html>' },
    {
      name: 'in which an object has no size',
      answer: '<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>',
    },
    {
      name: 'that always names a next page',
      answer:
        '<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>1</NextContinuationToken>',
    },
  ])('list() refuses an answer $name', async ({ answer }) => {
    store.fault = (_, response) => {
      response.end(answer);
      return true;
    };
    expect((await refusalOf(client().list('', signal))).code).toBe('objectstore-answer-invalid');
  });

  test('XML entities in an error text of the store are decoded', async () => {
    store.fault = (_, response) => {
      response
        .writeHead(400)
        .end('<Error><Code>A</Code><Message>expecting &#34;eu-1&#34; &amp; &lt;b&gt;</Message>');
      return true;
    };
    expect((await refusalOf(client().list('', signal))).text).toContain('expecting "eu-1" & <b>');
  });

  test('an error text of the store cannot control a terminal, and its length is limited', async () => {
    store.fault = (_, response) => {
      refuse(response, 403, `\u001b[2J${'x'.repeat(10_000)}`);
      return true;
    };
    const { text } = await refusalOf(client().list('', signal));
    expect(text).not.toContain('\u001b');
    expect(text.length).toBeLessThan(1_000);
  });

  test('a store with TLS needs a certificate of the named CA, for its address', async () => {
    const nowMs = Date.now();
    const caKey = generateKeyPem();
    const caPem = await createCaCertPem({ commonName: 'store', keyPem: caKey, nowMs });
    const signer = new KeyCertificateSigner({ caPem, keyPem: caKey, nowMs: () => nowMs });
    const start = async (ip: string) => {
      const keyPem = generateKeyPem();
      const names = [{ type: 'ip', value: ip } as const];
      const leaf = { pubKeyDer: pubKeyDerOf(keyPem), usages: ['server'] as const, names, validDays: 1 };
      const cert = await signer.issue({ commonName: 'store', ...leaf });
      store = opened(await new FakeObjectStore({ key: keyPem.reveal(), cert }).start());
    };
    await start('127.0.0.1');
    expect((await refusalOf(client().list('', signal))).code).toBe('objectstore-untrusted');
    expect(await client({ ca: caPem }).list('', signal)).toEqual([]);
    await start('192.0.2.1');
    expect((await refusalOf(client({ ca: caPem }).list('', signal))).code).toBe('objectstore-untrusted');
    expect(store.requests).toEqual([]);
  });

  test('a request that the caller aborts rejects with the reason of the caller', async () => {
    const given = new AbortController();
    store.fault = () => {
      given.abort(new Error('the agent stops'));
      return true;
    };
    await expect(client().list('', given.signal)).rejects.toThrow('the agent stops');
  });
});

describe('parseStoreCredentials()', () => {
  const parse = (text: string) => {
    const { accessKeyId, secretAccessKey } = parseStoreCredentials('FILE', new Secret(text));
    return [accessKeyId, secretAccessKey.reveal()];
  };

  test.each([
    {
      name: 'the profile default',
      text: '[default]\naws_access_key_id = AK\naws_secret_access_key=s/e+c=\n',
    },
    { name: 'lines without a profile', text: 'aws_access_key_id=AK\r\naws_secret_access_key = s/e+c=\r\n' },
    {
      name: 'the profile default after another profile',
      text: '[other]\naws_access_key_id=NO\n[default] # mine\naws_access_key_id=AK\naws_secret_access_key=s/e+c=',
    },
  ])('reads $name', ({ text }) => {
    expect(parse(text)).toEqual(['AK', 's/e+c=']);
  });

  test('reads what renderStoreCredentials() writes', () => {
    const written = renderStoreCredentials({ accessKeyId: 'AK', secretAccessKey: new Secret('s/e+c=') });
    expect(parse(written.reveal())).toEqual(['AK', 's/e+c=']);
  });

  test.each([
    '',
    'hunter2',
    '[default]\naws_access_key_id=hunter2',
    '[other]\naws_access_key_id=a\naws_secret_access_key=hunter2',
    'aws_access_key_id=a\naws_secret_access_key=hunter2 \u0007x',
  ])('refuses %j and quotes nothing of it', async (text) => {
    const refusal = await refusalOf(Promise.resolve().then(() => parse(text)));
    expect(refusal.code).toBe('objectstore-credentials-invalid');
    expect(refusal.text).not.toContain('hunter2');
  });
});
