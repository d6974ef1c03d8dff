import { mkdtemp, readFile, rm, writeFile, cp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SystemClock } from '../../clock/index.ts';
import { ExecaRunner, HostProcesses } from '../../exec/index.ts';
import { socketSource, Tpm, type TransportSource } from '../../tpm/index.ts';

const PATH = '/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * A software TPM with its own manufacturer: a root CA, an issuing CA and EK certificates in NV, all in one
 * temporary directory. The creation takes about two seconds, so the tests of a file share one.
 */
export interface SwtpmFactory extends AsyncDisposable {
  /** PEM of the root and of the issuing CA. */
  readonly rootPem: string;
  readonly issuerPem: string;
  /**
   * Starts the TPM from the original state, from a copy (a cloned machine), or again from the last state of
   * a copy.
   */
  start(options?: { readonly copy?: string; readonly again?: string }): Promise<Swtpm>;
}

/** A running software TPM at a unix socket. */
export interface Swtpm extends AsyncDisposable {
  readonly socketPath: string;
  readonly source: TransportSource;
  /** A client with the real clock. Dispose it before the TPM. */
  open(): Tpm;
}

export async function createSwtpmFactory(): Promise<SwtpmFactory> {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-swtpm-'));
  const commands = new ExecaRunner({ path: PATH });
  const signal = AbortSignal.timeout(60_000);
  const state = join(directory, 'state');
  await writeConfiguration(directory);
  await commands.run({ argv: ['mkdir', '-p', state, join(directory, 'ca')], signal });
  await commands.run({ argv: setupCommand(directory, state), signal, env: { PATH, HOME: directory } });
  const read = (name: string): Promise<string> => readFile(join(directory, 'ca', name), 'utf8');
  return {
    rootPem: await read('swtpm-localca-rootca-cert.pem'),
    issuerPem: await read('issuercert.pem'),
    start: async ({ copy, again } = {}) => {
      if (again !== undefined) return startSwtpm(join(directory, again));
      const used = copy === undefined ? state : join(directory, copy);
      if (copy !== undefined) await cp(state, used, { recursive: true });
      return startSwtpm(used);
    },
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
  };
}

function setupCommand(directory: string, state: string): [string, ...string[]] {
  const config = ['--config', join(directory, 'setup.conf')];
  const wanted = ['--create-ek-cert', '--create-platform-cert', '--pcr-banks', 'sha256', '--overwrite'];
  return ['swtpm_setup', '--tpm2', '--tpmstate', state, ...config, ...wanted];
}

async function writeConfiguration(directory: string): Promise<void> {
  const ca = join(directory, 'ca');
  const lines = {
    'setup.conf': [
      'create_certs_tool = /usr/bin/swtpm_localca',
      `create_certs_tool_config = ${join(directory, 'localca.conf')}`,
      `create_certs_tool_options = ${join(directory, 'localca.options')}`,
    ],
    'localca.conf': [
      `statedir = ${ca}`,
      `signingkey = ${join(ca, 'signkey.pem')}`,
      `issuercert = ${join(ca, 'issuercert.pem')}`,
      `certserial = ${join(ca, 'certserial')}`,
    ],
    'localca.options': ['--platform-manufacturer test', '--platform-version 1', '--platform-model test'],
  };
  for (const [name, text] of Object.entries(lines))
    await writeFile(join(directory, name), `${text.join('\n')}\n`);
}

async function startSwtpm(state: string): Promise<Swtpm> {
  const socketPath = join(state, 'tpm.sock');
  await rm(socketPath, { force: true });
  // Does not inherit the streams of this process: a TPM that outlives a failed test must not keep their
  // reader waiting.
  const processes = new HostProcesses({ path: PATH });
  const flags = ['--flags', 'not-need-init', '--server', `type=unixio,path=${socketPath}`];
  const pid = await processes.startDetached({
    argv: ['swtpm', 'socket', '--tpm2', '--tpmstate', `dir=${state}`, ...flags],
  });
  const source = socketSource({ path: socketPath });
  await untilAnswering(source);
  return {
    socketPath,
    source,
    open: () => new Tpm({ source, clock: new SystemClock() }),
    [Symbol.asyncDispose]: async () => {
      const signal = AbortSignal.timeout(10_000);
      processes.sendSignal(pid, 'SIGTERM');
      while (processes.sendSignal(pid, 0)) await new SystemClock().sleep(5, signal);
    },
  };
}

async function untilAnswering(source: TransportSource): Promise<void> {
  const clock = new SystemClock();
  const signal = AbortSignal.timeout(10_000);
  for (;;) {
    try {
      await using transport = await source.open(signal);
      return void transport;
    } catch (error) {
      signal.throwIfAborted();
      await clock.sleep(10, signal);
      if (signal.aborted) throw error;
    }
  }
}
