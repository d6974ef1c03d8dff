import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { env } from 'node:process';
import { createInterface, type Interface } from 'node:readline';
import { runGo } from '../../run-go.ts';

const MODULE = 'github.com/versity/versitygw/cmd/versitygw';
const SOURCE = resolve(import.meta.dirname, '../../object-store');

/**
 * This script runs in its own mount namespace, so the file system with the buckets disappears when the script ends.
 * The script reads one order per line and prints the order again when it is done.
 */
const SCRIPT = `
mount -t tmpfs -o size="$1" store "$2" && mkdir "$2/$3" || exit 1
shift 3
while read -r order; do
  case $order in
    start) "$@" >&2 & pid=$! ;;
    stop) kill $pid; wait $pid ;;
    fill) dd if=/dev/zero of="$DATA/filler" bs=1M 2>/dev/null ;;
    free) rm "$DATA/filler" ;;
  esac
  echo "$order"
done
kill $pid
`;

/** The address of a store, and the credentials that it requires from its clients. */
export interface ObjectStoreOptions {
  readonly host: string;
  /** PEM texts of its certificate and key. */
  readonly tls: { readonly certPem: string; readonly keyPem: string };
  readonly bucket: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sizeMib: number;
}

/** A real S3-compatible store on this machine (e2e/object-store) with one bucket. It ends with the story. */
export class ObjectStoreServer implements AsyncDisposable {
  /** "https://HOST:PORT". */
  readonly endpoint: string;
  readonly #child: ChildProcess;
  readonly #answers: AsyncIterator<string, undefined>;

  private constructor(endpoint: string, child: ChildProcess, answers: Interface) {
    this.endpoint = endpoint;
    this.#child = child;
    this.#answers = answers[Symbol.asyncIterator]();
  }

  /** Builds and starts the store. @param directory for the program and its files */
  static async start(directory: string, options: ObjectStoreOptions): Promise<ObjectStoreServer> {
    const { host, tls, bucket, accessKeyId, secretAccessKey, sizeMib } = options;
    const program = join(directory, 'versitygw');
    await runGo(['build', '-trimpath', '-ldflags=-s -w', '-o', program, MODULE], { cwd: SOURCE });
    const [data, cert, key] = ['store-data', 'store.crt', 'store.key'].map((name) => join(directory, name));
    await mkdir(data ?? '');
    await writeFile(cert ?? '', tls.certPem);
    await writeFile(key ?? '', tls.keyPem, { mode: 0o600 });
    const address = `${host}:${await freePort(host)}`;
    const serve = [program, '--quiet', '--port', address, '--cert', cert ?? '', '--key', key ?? ''];
    const args = ['-c', SCRIPT, 'store', `${sizeMib}m`, data ?? '', bucket, ...serve, 'posix', data ?? ''];
    const child = spawn('unshare', ['--mount', '--propagation', 'private', 'sh', ...args], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: {
        ...{ PATH: env['PATH'], DATA: data },
        ...{ ROOT_ACCESS_KEY_ID: accessKeyId, ROOT_SECRET_ACCESS_KEY: secretAccessKey },
      },
    });
    const store = new ObjectStoreServer(
      `https://${address}`,
      child,
      createInterface({ input: child.stdout }),
    );
    await store.order('start');
    return store;
  }

  /** Starts or stops the server, or takes or gives back all space of its file system. The buckets stay. */
  async order(order: 'start' | 'stop' | 'fill' | 'free'): Promise<void> {
    this.#child.stdin?.write(`${order}\n`);
    const { value, done } = await this.#answers.next();
    if (done === true || value !== order) throw new Error(`the store has not carried out ${order}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.stdin?.end();
    await ended;
  }
}

async function freePort(host: string): Promise<number> {
  const server = createServer().listen(0, host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
