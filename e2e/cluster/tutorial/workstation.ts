import { chmod, copyFile, mkdir, symlink, writeFile } from 'node:fs/promises';
import { spawn } from 'node:child_process';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { env, execPath } from 'node:process';
import { DEFAULT_KUBERNETES_VERSION } from '../../../internal/bundle/index.ts';
import { cliJson, type StoryCluster } from '../harness/story-cluster.ts';
import type { Harness } from '../../machines/harness.ts';

const CHECKOUT = join(import.meta.dirname, '../../..');
const CLI = join(CHECKOUT, 'cli/main.ts');
const OWN_SETTINGS = join(import.meta.dirname, 'own-settings.ts');
const BLOCK_TIMEOUT_MS = 600_000;

interface Options {
  readonly cluster: StoryCluster;
  readonly machines: readonly string[];
  /**
   * For each machine, some fields of its provisioning. They replace the same fields in the provisioning file that the
   * tutorial copies to the machine.
   */
  readonly own: Readonly<Record<string, object>>;
  /** Whether the operator has a kubectl. */
  readonly kubectl: boolean;
  /** More environment variables. */
  readonly environment?: Readonly<Record<string, string>>;
}

/**
 * The operator's workstation: a directory, and a PATH where `ssh` and `scp` lead to local machines. `apt-get install` of the CLI's
 * package unpacks it there instead of changing the host. One shell keeps its directory and variables from block to block.
 */
export class Workstation {
  readonly #directory: string;
  readonly #environment: Readonly<Record<string, string>>;
  #output = '';

  private constructor(directory: string, environment: Readonly<Record<string, string>>) {
    this.#directory = directory;
    this.#environment = environment;
  }

  static async create(bench: Harness, options: Options): Promise<Workstation> {
    const directory = join(bench.directory, 'workstation');
    const programs = join(directory, 'bin');
    await mkdir(programs, { recursive: true });
    for (const part of ['dist', 'docs']) await symlink(join(CHECKOUT, part), join(directory, part));
    const data = join(bench.directory, 'data');
    const own = join(directory, 'own.json');
    const byAddress: Record<string, object> = {};
    for (const machine of options.machines)
      byAddress[await options.cluster.address(machine)] = { machine, own: options.own[machine] };
    await writeFile(own, JSON.stringify(byAddress));
    const mini = (command: string): string =>
      `env XDG_DATA_HOME='${data}' '${execPath}' '${CLI}' mini ${command} --name ${options.cluster.name}`;
    const machineOf = `machine=$('${execPath}' -p 'JSON.parse(fs.readFileSync("${own}", "utf8"))[process.argv[1]].machine' "$address")`;
    const scripts: Readonly<Record<string, string>> = {
      sudo: 'exec "$@"',
      ssh: `address=\${1#root@}; shift; ${machineOf}\n${mini('exec')} "$machine" -- sh -c "$*"`,
      scp: [
        'source=$1 address=${2#root@} target=${2#*:}; address=${address%%:*}',
        machineOf,
        `file=$(mktemp); trap 'rm -f "$file"' EXIT; cp "$source" "$file"`,
        // A local machine has no TPM device, and its host may have cgroup v1: these settings are the machine's own.
        `case $target in */provisioning.json | */user-data)
          settings=$('${execPath}' -p 'JSON.stringify(JSON.parse(fs.readFileSync("${own}", "utf8"))[process.argv[1]].own)' "$address")
          '${execPath}' '${OWN_SETTINGS}' "$settings" "$file" ;; esac`,
        `${mini('exec')} "$machine" -- sh -c "umask 077; mkdir -p \\$(dirname $target); cat > $target" < "$file"`,
      ].join('\n'),
      'apt-get': [
        `for file do :; done; dpkg-deb --extract "$file" '${directory}/root'`,
        `sed 's,/usr/lib/,${directory}/root/usr/lib/,g' '${directory}/root/usr/bin/cluster' > '${programs}/cluster'`,
        `chmod 755 '${programs}/cluster'`,
      ].join('\n'),
    };
    for (const [name, script] of Object.entries(scripts)) {
      await writeFile(join(programs, name), `#!/bin/bash\nset -e\n${script}\n`);
      await chmod(join(programs, name), 0o755);
    }
    if (options.kubectl) await placeKubectl(bench, programs);
    const path = `${programs}:${env['PATH'] ?? ''}`;
    return new Workstation(directory, {
      PATH: path,
      HOME: directory,
      XDG_CACHE_HOME: join(homedir(), '.cache'),
      ...options.environment,
    });
  }

  /** A path in the directory of the operator. */
  path(name: string): string {
    return join(this.#directory, name);
  }

  /** The output of the last block. */
  get output(): string {
    return this.#output;
  }

  /** Writes a program that runs its arguments as one command of a shell at the workstation. */
  async writeLauncher(file: string): Promise<void> {
    const variables = Object.entries(this.#environment).map(([name, value]) => `'${name}=${value}'`);
    const shell = `exec env -i ${variables.join(' ')} TERM="\${TERM:-dumb}" bash -c "$*"`;
    await writeFile(file, `#!/bin/bash\ncd '${this.#directory}' || exit 1\n${shell}\n`);
    await chmod(file, 0o755);
  }

  /**
   * Runs a block as an operator types it. The block ends at the first command that fails. @throws Error with its
   * output
   */
  async run(script: string): Promise<void> {
    const state = join(this.#directory, 'state');
    const wrapped = `set -eu; touch '${state}'; . '${state}'; set -x
${script}
{ set +x; } 2>/dev/null; { declare -p fingerprint play sha256 KUBECONFIG PATH 2>/dev/null || true; declare -f; echo "cd '$PWD'"; } > '${state}'`;
    const child = spawn('bash', ['-c', wrapped], {
      cwd: this.#directory,
      env: this.#environment,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: BLOCK_TIMEOUT_MS,
    });
    let output = '';
    const keep = (chunk: Buffer): string => (output += chunk.toString());
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    const code = await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve));
    this.#output = output;
    if (code !== 0) throw new Error(`a block of the tutorial ended with ${String(code)}:\n${output}`);
  }
}

/** kubectl of the bundle, as an operator would have it installed. */
async function placeKubectl(bench: Harness, programs: string): Promise<void> {
  const { components } = await cliJson<{ components: readonly { name: string; sha256: string }[] }>(
    bench,
    ...['bundle', 'ls', '--kubernetes-version', DEFAULT_KUBERNETES_VERSION],
  );
  const sha256 = components.find(({ name }) => name === 'kubectl')?.sha256 ?? '';
  await copyFile(join(homedir(), '.cache/cluster/blobs/sha256', sha256), join(programs, 'kubectl'));
  await chmod(join(programs, 'kubectl'), 0o755);
}
