import { cp, copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parse } from 'yaml';
import type { Harness } from '../machines/harness.ts';
import { runGo } from '../run-go.ts';

const EXAMPLES = resolve(import.meta.dirname, '../../docs/examples/terraform');
const SEARCH_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const BUILD_MS = 2_400_000;
const RUN_MS = 120_000;
/** The version in e2e/terraform/openstack-provider/go.mod. */
const PROVIDER_VERSION = '3.4.0';
const PROVIDER = 'registry.opentofu.org/terraform-provider-openstack/openstack';

/** The outputs of the example module, which needs no provider. */
export interface Outputs {
  readonly user_data: { readonly value: Readonly<Record<string, string>> };
  readonly inventory: { readonly value: string };
}

/** OpenTofu and the provider of OpenStack, built from their Go modules, with a copy of the examples. Reaches no registry. */
export class OpenTofu {
  /** The copy of docs/examples/terraform. */
  readonly examples: string;
  readonly #bench: Harness;
  readonly #directory: string;

  private constructor(bench: Harness) {
    this.#bench = bench;
    this.#directory = join(bench.directory, 'tofu');
    this.examples = join(this.#directory, 'examples');
  }

  static async build(bench: Harness): Promise<OpenTofu> {
    const tofu = new OpenTofu(bench);
    await mkdir(tofu.#directory);
    await cp(EXAMPLES, tofu.examples, { recursive: true });
    await tofu.#goBuild('tofu', 'tofu', 'github.com/opentofu/opentofu/cmd/tofu');
    const mirror = join(tofu.#directory, 'mirror', PROVIDER, PROVIDER_VERSION, 'linux_amd64');
    await mkdir(mirror, { recursive: true });
    const module = 'github.com/terraform-provider-openstack/terraform-provider-openstack/v3';
    const program = await tofu.#goBuild('openstack-provider', 'provider', module);
    await copyFile(program, join(mirror, `terraform-provider-openstack_v${PROVIDER_VERSION}`));
    await writeFile(
      join(tofu.#directory, 'tofurc'),
      `provider_installation {\n  filesystem_mirror {\n    path = "${join(tofu.#directory, 'mirror')}"\n  }\n}\ndisable_checkpoint = true\n`,
    );
    return tofu;
  }

  /** Runs OpenTofu in a directory of the examples, and returns its output. Throws if it fails. */
  async run(directory: string, ...args: readonly string[]): Promise<string> {
    const { stdout } = await this.#bench.machines.commands.run({
      argv: [join(this.#directory, 'tofu'), ...args],
      cwd: join(this.examples, directory),
      env: {
        PATH: SEARCH_PATH,
        HOME: this.#directory,
        TF_CLI_CONFIG_FILE: join(this.#directory, 'tofurc'),
      },
      timeoutMs: RUN_MS,
      signal: this.#bench.signal,
    });
    return stdout.trim();
  }

  /** Applies the module without a provider, and returns its outputs. */
  async provisioning(variables: object): Promise<Outputs> {
    const file = join(this.#directory, 'variables.tfvars.json');
    await writeFile(file, JSON.stringify(variables));
    await this.run('provisioning', 'init', '-no-color');
    await this.run('provisioning', 'apply', '-no-color', '-auto-approve', '-var-file', file);
    return JSON.parse(await this.run('provisioning', 'output', '-json')) as Outputs;
  }

  async #goBuild(directory: string, name: string, module: string): Promise<string> {
    const program = join(this.#directory, name);
    await runGo(['build', '-o', program, module], {
      cwd: join(import.meta.dirname, directory),
      flags: '-mod=readonly -buildvcs=false',
      timeoutMs: BUILD_MS,
      signal: this.#bench.signal,
    });
    return program;
  }
}

/** The provisioning file in user data for cloud-init. */
export function provisioningIn(userData: string): { readonly text: string; readonly content: Provisioning } {
  const { write_files: files } = parse(userData) as {
    readonly write_files: readonly { readonly path: string; readonly content: string }[];
  };
  const text = files.find(({ path }) => path === '/etc/cluster/provisioning.json')?.content ?? '';
  return { text, content: JSON.parse(text) as Provisioning };
}

interface Provisioning {
  readonly nodeName: string;
  readonly address: string;
  readonly joinEndpoints?: readonly string[];
  readonly wantedRoles?: readonly string[];
}
