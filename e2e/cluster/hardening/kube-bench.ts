import { readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parse, stringify } from 'yaml';
import type { Harness } from '../../machines/harness.ts';
import { runGo } from '../../run-go.ts';
import type { StoryCluster } from '../harness/story-cluster.ts';
import { withLoss, type Loss } from './lost-settings.ts';

/** The newest CIS benchmark that the module brings. */
export const BENCHMARK = 'cis-1.12';
const MODULE = 'github.com/aquasecurity/kube-bench';
const SOURCE = resolve(import.meta.dirname, '../../kube-bench');
const HOME = '/opt/kube-bench';
/** Of the Kubernetes etcd. */
export const ETCD_CONFIG = '/var/lib/cluster/etcd-kubernetes/etcd.json';
const ETCD_DATA = '/var/lib/cluster/etcd-kubernetes/data';

/** The result of one check. */
export interface CheckResult {
  readonly id: string;
  readonly text: string;
  readonly status: 'PASS' | 'FAIL' | 'WARN' | 'INFO';
  readonly actual: string;
  /** The shell command that reads the state of the machine. */
  readonly audit: string;
}

interface Report {
  readonly Controls: readonly {
    readonly tests: readonly {
      readonly results: readonly {
        readonly test_number: string;
        readonly test_desc: string;
        readonly status: CheckResult['status'];
        readonly actual_value?: string;
        readonly audit?: string;
      }[];
    }[];
  }[];
}

/** The paths of etcd's settings in its configuration file, by the flag that the benchmark looks for. */
const ETCD_PATHS: Readonly<Record<string, string>> = {
  '--cert-file': '{.client-transport-security.cert-file}',
  '--key-file': '{.client-transport-security.key-file}',
  '--client-cert-auth': '{.client-transport-security.client-cert-auth}',
  '--auto-tls': '{.client-transport-security.auto-tls}',
  '--trusted-ca-file': '{.client-transport-security.trusted-ca-file}',
  '--peer-cert-file': '{.peer-transport-security.cert-file}',
  '--peer-key-file': '{.peer-transport-security.key-file}',
  '--peer-client-cert-auth': '{.peer-transport-security.client-cert-auth}',
  '--peer-auto-tls': '{.peer-transport-security.auto-tls}',
};

/** kube-bench, built from its Go module, with the paths of this product. No check is changed or left out. */
export class KubeBench {
  readonly #program: Uint8Array;
  readonly #files: Readonly<Record<string, string>>;

  private constructor(program: Uint8Array, files: Readonly<Record<string, string>>) {
    this.#program = program;
    this.#files = files;
  }

  static async build(bench: Harness): Promise<KubeBench> {
    const program = join(bench.directory, 'kube-bench');
    const go = (...args: readonly string[]) => runGo(args, { cwd: SOURCE, signal: bench.signal });
    await go('build', '-trimpath', '-o', program, MODULE);
    const directory = join(await go('list', '-m', '-f', '{{.Dir}}', MODULE), 'cfg');
    const names = (await readdir(join(directory, BENCHMARK))).map((name) => `${BENCHMARK}/${name}`);
    const files: Record<string, string> = {};
    for (const name of ['config.yaml', ...names])
      files[name] = withPaths(name, await readFile(join(directory, name), 'utf8'));
    return new KubeBench(await readFile(program), files);
  }

  /** Writes the program and its configuration to a machine. */
  async install(bench: Harness, cluster: StoryCluster, machine: string): Promise<void> {
    const files: Record<string, string | Uint8Array> = { [`${HOME}/kube-bench`]: this.#program };
    for (const [name, text] of Object.entries(this.#files)) files[`${HOME}/cfg/${name}`] = text;
    await this.#write(bench, cluster, { machine, files });
  }

  /** Runs the checks of these targets on a machine, as if it had lost something. */
  async run(
    bench: Harness,
    cluster: StoryCluster,
    {
      machine,
      targets,
      loss,
    }: { readonly machine: string; readonly targets: readonly string[]; readonly loss?: Loss },
  ): Promise<readonly CheckResult[]> {
    const command = `export KUBECONFIG=/etc/kubernetes/admin.conf PATH=/opt/cluster/bin:$PATH
cd ${HOME} && ./kube-bench run --targets ${targets.join(',')} --benchmark ${BENCHMARK} --config-dir ${HOME}/cfg --config ${HOME}/cfg/config.yaml --json`;
    const path = `${HOME}/run`;
    await this.#write(bench, cluster, {
      machine,
      files: { [path]: loss ? withLoss(loss, command) : command },
    });
    const said = await cluster.sh(machine, `sh ${path}`);
    const report = JSON.parse(said.slice(said.indexOf('{'))) as Report;
    return report.Controls.flatMap(({ tests }) =>
      tests.flatMap(({ results }) =>
        results.map(
          ({ test_number: id, test_desc: text, status, actual_value: actual = '', audit = '' }) => ({
            ...{ id, text, status, actual, audit },
          }),
        ),
      ),
    );
  }

  async #write(
    bench: Harness,
    cluster: StoryCluster,
    to: { readonly machine: string; readonly files: Readonly<Record<string, string | Uint8Array>> },
  ): Promise<void> {
    const node = await (await bench.cluster(cluster.name)).node(to.machine);
    for (const [path, input] of Object.entries(to.files))
      await node.exec(['sh', '-ec', `mkdir -p "$(dirname ${path})" && cat > ${path} && chmod 700 ${path}`], {
        ...{ input, signal: bench.signal },
      });
  }
}

/**
 * Writes the paths of etcd into the benchmark's configuration. kube-bench expects a static pod, but our etcd is a
 * systemd unit with a configuration file.
 */
function withPaths(name: string, text: string): string {
  if (name === 'config.yaml') return withEtcdFiles(text);
  return name === `${BENCHMARK}/etcd.yaml` ? withEtcdPaths(text) : text;
}

function withEtcdFiles(text: string): string {
  const document = parse(text) as { master?: { etcd?: object }; etcd?: { etcd?: object } };
  const datadirs = [ETCD_DATA];
  const paths = { confs: [ETCD_CONFIG], defaultconf: ETCD_CONFIG, datadirs, defaultdatadir: ETCD_DATA };
  for (const part of [document.master, document.etcd])
    if (part !== undefined) part.etcd = { ...part.etcd, ...paths };
  return stringify(document);
}

/**
 * Edits the text line by line. The YAML 1.2 parser cannot read this file, because its quoted texts continue without
 * indentation.
 */
function withEtcdPaths(text: string): string {
  return text
    .replace(/^( +)audit: .*$/gmu, `$&\n$1audit_config: "/bin/cat ${ETCD_CONFIG}"`)
    .replace(/^( +)- flag: "(--[a-z-]+)"$/gmu, (line, indent: string, flag: string) => {
      const path = ETCD_PATHS[flag];
      return path === undefined ? line : `${line}\n${indent}  path: "${path}"`;
    });
}
