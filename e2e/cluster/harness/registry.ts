import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { runGo } from '../../run-go.ts';

const SOURCES = join(import.meta.dirname, '../../registry-peer');

/** The TLS and login settings of a registry, and an image that it serves. */
export interface RegistryOptions {
  /** Unique in its directory. */
  readonly name?: string;
  /** PEM files of the certificate and its key; undefined: without TLS. */
  readonly tls?: { readonly certPem: string; readonly keyPem: string };
  /** "USER:PASSWORD"; `setLogin` changes it. */
  readonly login?: string;
  /** Whether clients must exchange the login for a token, and use the token for all other requests. */
  readonly token?: boolean;
  /** "REPOSITORY:TAG" and the directory of an OCI image layout. */
  readonly image?: { readonly reference: string; readonly layout: string };
}

/** A real OCI registry on this machine (e2e/registry-peer). It ends with the story. */
export class Registry implements AsyncDisposable {
  /** "HOST:PORT". */
  readonly address: string;
  /** Lines of "METHOD PATH STATUS" in the order of the requests. */
  readonly requests: string[] = [];
  readonly #child: ChildProcess;
  readonly #loginFile: string;

  private constructor(child: ChildProcess, address: string, loginFile: string) {
    this.#child = child;
    this.address = address;
    this.#loginFile = loginFile;
  }

  /**
   * @param directory for the program and its files
   * @param host an address of this machine
   */
  static async start(directory: string, host: string, options: RegistryOptions = {}): Promise<Registry> {
    const { name = 'registry', tls, login, token = false, image } = options;
    const program = join(directory, 'registry');
    await runGo(['build', '-trimpath', '-o', program, '.'], { cwd: SOURCES });
    const file = (kind: string): string => join(directory, `${name}.${kind}`);
    const flags: string[] = token ? ['-token'] : [];
    if (tls !== undefined) {
      await writeFile(file('crt'), tls.certPem);
      await writeFile(file('key'), tls.keyPem, { mode: 0o600 });
      flags.push('-cert', file('crt'), '-key', file('key'));
    }
    if (login !== undefined) flags.push('-login-file', file('login'));
    if (image !== undefined) flags.push('-image', `${image.reference}=${image.layout}`);
    if (login !== undefined) await writeFile(file('login'), login, { mode: 0o600 });
    const child = spawn(program, [...flags, host], { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = createInterface({ input: child.stdout });
    const [address] = (await once(lines, 'line')) as [string];
    const registry = new Registry(child, address, file('login'));
    lines.on('line', (line) => registry.requests.push(line));
    return registry;
  }

  /** From now on, only this "USER:PASSWORD" is accepted. */
  setLogin(login: string): Promise<void> {
    return writeFile(this.#loginFile, login, { mode: 0o600 });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.stdin?.end();
    await ended;
  }
}
