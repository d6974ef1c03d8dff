import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { BlobStore } from '../bundle/index.ts';
import { DAY_MS } from '../clock/index.ts';
import { formatBytes } from '../printable/index.ts';
import { assembleComponent, type CToolchain } from './assemble-component.ts';
import type { BuildCache, BuiltComponent } from './build-cache.ts';
import type { BuildContext, BuildProgress } from './build-context.ts';
import { checkRequirements } from './build-requirements.ts';
import { GoBuilder, type PreparedModule } from './golang/go-builder.ts';
import { ensureToolchain } from './golang/go-toolchain.ts';
import { readNetworkTools, type NetworkTools } from './images/network-tools.ts';
import { programsOf, type PlannedComponent } from './plan-bundle.ts';
import type { GoModuleRecipe } from './recipes/recipe.ts';

/** A work directory that is older than this belongs to a run that was killed. */
const ABANDONED_MS = DAY_MS;

/** The components to build, the stores for them, and the programs that exist already. */
export interface ComponentBuilderOptions {
  readonly store: BlobStore;
  readonly cache: BuildCache;
  readonly todo: readonly PlannedComponent[];
  /** Programs that need no build: name → path of the file. */
  readonly programs?: ReadonlyMap<string, string>;
  /** Component name → source, for components whose programs need no build. */
  readonly sources?: ReadonlyMap<string, string>;
}

/**
 * Builds components in its own work directory, which it removes at the end. Each component is stored and
 * cached as soon as all its programs and packages exist.
 */
export class ComponentBuilder {
  readonly #context: BuildContext;
  readonly #options: ComponentBuilderOptions;
  readonly #directory: string;
  readonly #programs: Map<string, string>;
  readonly #built = new Map<string, BuiltComponent>();
  #networkTools: NetworkTools | undefined;
  #cToolchain: CToolchain | undefined;

  constructor(context: BuildContext, options: ComponentBuilderOptions) {
    this.#context = context;
    this.#options = options;
    this.#directory = join(context.cache, 'build', randomUUID());
    this.#programs = new Map(options.programs);
  }

  /** Builds all planned components. Returns the components by name. */
  async run(): Promise<ReadonlyMap<string, BuiltComponent>> {
    const { reporter, ports } = this.#context;
    const { todo } = this.#options;
    const modules = this.#missingModules();
    const needsPackages = todo.some(({ needsNetworkTools }) => needsNetworkTools);
    await checkRequirements(this.#context, {
      cgo: modules.some(({ cgo }) => cgo),
      packages: needsPackages,
    });
    await this.#removeAbandoned();
    try {
      await ports.files.makeDirectory(this.#directory);
      if (needsPackages) {
        await reporter.step('bundle-packages', 'Downloading Debian packages for images', async () => {
          this.#networkTools = await readNetworkTools(this.#context, join(this.#directory, 'packages'));
        });
      }
      await this.#assembleReady();
      if (modules.length > 0) await this.#compile(modules);
      const left = todo.map(({ recipe }) => recipe.name).filter((name) => !this.#built.has(name));
      if (left.length > 0) throw new TypeError(`no recipe builds the programs of ${left.join(', ')}`);
      return this.#built;
    } finally {
      await ports.files.remove(this.#directory);
    }
  }

  /** The modules whose programs are missing, each once, in the order of the recipes. */
  #missingModules(): readonly GoModuleRecipe[] {
    const { todo } = this.#options;
    const wanted = todo.flatMap(({ recipe }) => programsOf(recipe));
    const missing = wanted.filter((name) => !this.#programs.has(name));
    const all = new Map(todo.flatMap(({ modules }) => modules.map((module) => [module.id, module] as const)));
    return [...all.values()].filter(({ programs }) => missing.some((name) => name in programs));
  }

  async #compile(modules: readonly GoModuleRecipe[]): Promise<void> {
    const { reporter } = this.#context;
    const goroot = await reporter.step('bundle-toolchain', 'Preparing the Go toolchain', (progress) =>
      ensureToolchain(this.#context, progress),
    );
    if (modules.some(({ cgo }) => cgo)) this.#cToolchain = await findCToolchain(this.#context);
    const builder = new GoBuilder(this.#context, { goroot, directory: this.#directory });
    for (const [index, recipe] of modules.entries()) {
      const title = `Building ${recipe.id} (${index + 1} of ${modules.length})`;
      await reporter.step(`bundle-build-${recipe.id}`, title, async (progress) => {
        progress.update('downloading sources');
        const prepared = await builder.prepare(recipe);
        const programs = await buildCounting(builder, prepared, progress.update);
        for (const [name, path] of programs) this.#programs.set(name, path);
        await this.#assembleReady();
      });
    }
  }

  /** Stores all components whose programs exist by now. */
  async #assembleReady(): Promise<void> {
    const { store, cache, todo, sources } = this.#options;
    const parts = {
      programs: this.#programs,
      networkTools: this.#networkTools,
      cToolchain: this.#cToolchain,
    };
    for (const planned of todo) {
      const { name, version } = planned.recipe;
      const isReady = programsOf(planned.recipe).every((program) => this.#programs.has(program));
      if (this.#built.has(name) || !isReady) continue;
      const assembled = await assembleComponent(this.#context, store, planned, parts);
      const component = { ...assembled, source: sources?.get(name) ?? assembled.source };
      await cache.save(planned.key, component);
      this.#built.set(name, component);
      const remaining = todo.length - this.#built.size;
      const text = `Built ${name} ${version} (${formatBytes(component.sizeBytes)}), ${remaining} remaining`;
      this.#context.reporter.say('bundle-component', text, { name, version, ...component, remaining });
    }
  }

  /** Removes the work directories of runs that were killed. Nothing else removes them. */
  async #removeAbandoned(): Promise<void> {
    const { files, clock } = this.#context.ports;
    const parent = join(this.#context.cache, 'build');
    for (const name of await files.list(parent)) {
      const stat = await files.stat(join(parent, name));
      if (stat !== undefined && clock.nowMs() - stat.modifiedMs > ABANDONED_MS)
        await files.remove(join(parent, name));
    }
  }
}

function buildCounting(
  builder: GoBuilder,
  prepared: PreparedModule,
  report: BuildProgress['update'],
): Promise<ReadonlyMap<string, string>> {
  let compiled = 0;
  const share = () => ({ of: prepared.packages, value: compiled, unit: 'packages' }) as const;
  report('', share());
  return builder.build(prepared, (line) => {
    // `go build -v` starts the output of its C tools with a #; every other line is a package that is being compiled.
    if (line.startsWith('#')) return;
    compiled += 1;
    report(line, share());
  });
}

async function findCToolchain(context: BuildContext): Promise<CToolchain> {
  const env = { PATH: context.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C' };
  const version = async (...argv: [string, ...string[]]): Promise<string> =>
    (await context.ports.commands.run({ argv, env, signal: context.signal })).stdout.trim();
  return {
    gcc: await version('gcc', '-dumpfullversion'),
    libc: await version('getconf', 'GNU_LIBC_VERSION'),
    libseccomp: await version('pkg-config', '--modversion', 'libseccomp'),
  };
}
