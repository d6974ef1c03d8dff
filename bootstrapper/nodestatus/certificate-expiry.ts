import { X509Certificate } from 'node:crypto';
import { dirname } from 'node:path';
import { MINUTE_MS, readAtMostEvery, type Clock } from '../../internal/clock/index.ts';
import { type FilePort, readText } from '../../internal/file/index.ts';
import { consensusLayout, ETCD_INSTANCES } from '../consensus/index.ts';
import { COMPONENT_CLIENTS, KUBELET_FILES, PATHS } from '../kubernetes/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';

const MAX_BYTES = 256 * 1024;
const KUBECONFIGS = ['admin.conf'];
const DIRECTORIES = [
  AGENT_PATHS.credentials,
  dirname(KUBELET_FILES.ca),
  ...Object.values(ETCD_INSTANCES).flatMap(({ name, clients }) => {
    const layout = consensusLayout(AGENT_PATHS.state, name);
    const { server, clientsCa, peersCa } = layout;
    const directories = [server, clientsCa, peersCa].map(({ certFile }) => dirname(certFile));
    return [...directories, ...clients.map((client) => layout.user(client).directory)];
  }),
  AGENT_PATHS.ca,
  PATHS.pki,
  ...Object.values(COMPONENT_CLIENTS).map(({ directory }) => directory),
];

/** The name and the validity of a certificate on this node. */
export interface CertificateExpiry {
  /** Path of the certificate's file. */
  readonly name: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/** Creates a function that lists the certificates at most once a minute, and parses only files that have changed. */
export function createCertificateExpiryLister(
  files: FilePort,
  clock: Pick<Clock, 'monotonicMs'>,
): () => Promise<readonly CertificateExpiry[]> {
  return readAtMostEvery(MINUTE_MS, clock, createLister(files));
}

/** Each list after the first one reads only files and directories that have changed. Unreadable files are left out. */
function createLister(files: FilePort): () => Promise<readonly CertificateExpiry[]> {
  const directories = new FileCache<readonly string[]>(files);
  const certificates = new FileCache<readonly CertificateExpiry[]>(files);
  const expiry = async (path: string, pemFrom: (text: string) => string) =>
    (await certificates.get(path, () => readExpiry(files, path, pemFrom))) ?? [];
  return async () => {
    const found = await Promise.all([
      ...DIRECTORIES.map(async (directory) => {
        const names = (await directories.get(directory, () => files.list(directory))) ?? [];
        const paths = names.filter((name) => name.endsWith('.crt')).map((name) => `${directory}/${name}`);
        return (await Promise.all(paths.map((path) => expiry(path, (text) => text)))).flat();
      }),
      ...KUBECONFIGS.map((name) => expiry(`/etc/kubernetes/${name}`, embeddedCertificate)),
    ]);
    return found.flat();
  };
}

async function readExpiry(
  files: FilePort,
  path: string,
  pemFrom: (text: string) => string,
): Promise<readonly CertificateExpiry[]> {
  const text = await readText(files, path, MAX_BYTES);
  if (text === undefined) return [];
  try {
    const { validFrom, validTo } = new X509Certificate(pemFrom(text));
    return [{ name: path, notBeforeMs: Date.parse(validFrom), notAfterMs: Date.parse(validTo) }];
  } catch {
    return []; // the program that uses the certificate reports the error
  }
}

function embeddedCertificate(kubeconfig: string): string {
  const data = /client-certificate-data:\s*(\S+)/.exec(kubeconfig)?.[1] ?? '';
  return Buffer.from(data, 'base64').toString('utf8');
}

/** Caches what was read from files and directories until their modification time or size changes. */
class FileCache<T> {
  readonly #files: Pick<FilePort, 'stat'>;
  readonly #kept = new Map<string, { readonly written: string; readonly reading: T }>();

  constructor(files: Pick<FilePort, 'stat'>) {
    this.#files = files;
  }

  /** The result of `read`, or the cached one; undefined when the file does not exist. */
  async get(path: string, read: () => Promise<T>): Promise<T | undefined> {
    const stat = await this.#files.stat(path);
    if (stat === undefined) {
      this.#kept.delete(path);
      return undefined;
    }
    // The state of the file is read before its content, so that a file that is written meanwhile is read
    // again at the next call.
    const written = `${stat.modifiedMs} ${stat.sizeBytes}`;
    const kept = this.#kept.get(path);
    if (kept?.written === written) return kept.reading;
    const reading = await read();
    this.#kept.set(path, { written, reading });
    return reading;
  }
}
