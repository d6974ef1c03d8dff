import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { BlobStore } from '../../internal/bundle/index.ts';
import { formatBytes } from '../host/index.ts';
import { assembleComponent, type CToolchain } from './assemble.ts';
import type { BundleContext } from './context.ts';
import { GoBuilder, type PreparedModule } from './go-build.ts';
import { ensureToolchain } from './go-toolchain.ts';
import { makeNetbase, type Netbase } from './netbase.ts';
import { programsOf, type PlannedComponent } from './plan.ts';
import type { GoModuleRecipe } from './recipe.ts';
import type { Outcome, Records } from './records.ts';
import { checkRequirements } from './requirements.ts';

/** Work directories that are older than this were left by a run that was killed. */
const ABANDONED_MS = 24 * 3600 * 1000;

export interface BuildRunOptions {
  readonly store: BlobStore;
  readonly records: Records;
  readonly todo: readonly PlannedComponent[];
  /** Programs that are there already, by path; what they were taken from is said in `sources`. */
  readonly programs?: ReadonlyMap<string, string>;
  /** Component name → source, for components that are made of such programs. */
  readonly sources?: ReadonlyMap<string, string>;
}

/**
 * Makes components, in a directory of its own that it removes. Each one is stored and remembered as soon as all
 * its parts are there.
 */
export class BuildRun {
  readonly #context: BundleContext;
  readonly #options: BuildRunOptions;
  readonly #folder: string;
  readonly #programs: Map<string, string>;
  readonly #outcomes = new Map<string, Outcome>();
  #netbase: Netbase | undefined;
  #cToolchain: CToolchain | undefined;

  constructor(context: BundleContext, options: BuildRunOptions) {
    this.#context = context;
    this.#options = options;
    this.#folder = join(context.cache, 'build', randomUUID());
    this.#programs = new Map(options.programs);
  }

  /** Answers what was made, by component name. */
  async run(): Promise<ReadonlyMap<string, Outcome>> {
    const { host, ports } = this.#context;
    const { todo } = this.#options;
    const modules = this.#missingModules();
    await checkRequirements(this.#context, {
      cgo: modules.some((each) => each.cgo),
      packages: this.#needsNetbase(),
    });
    await this.#sweep();
    try {
      await ports.files.makeDirectory(this.#folder);
      if (this.#needsNetbase()) {
        await host.step('bundle.packages', 'Fetching distribution packages for images', async () => {
          this.#netbase = await makeNetbase(this.#context, join(this.#folder, 'packages'));
        });
      }
      await this.#assembleReady();
      if (modules.length > 0) await this.#compile(modules);
      const left = todo
        .filter((each) => !this.#outcomes.has(each.recipe.name))
        .map((each) => each.recipe.name);
      if (left.length > 0)
        throw new TypeError(`making components: no recipe brings the parts of ${left.join(', ')}`);
      return this.#outcomes;
    } finally {
      await ports.files.remove(this.#folder);
    }
  }

  /** The modules whose programs are needed and not there, each once, in the order of the recipe. */
  #missingModules(): readonly GoModuleRecipe[] {
    const wanted = this.#options.todo.flatMap((each) => programsOf(each.recipe));
    const missing = wanted.filter((name) => !this.#programs.has(name));
    const all = new Map(
      this.#options.todo.flatMap((each) => each.modules.map((one) => [one.id, one] as const)),
    );
    return [...all.values()].filter((each) => missing.some((name) => name in each.programs));
  }

  async #compile(modules: readonly GoModuleRecipe[]): Promise<void> {
    const { host } = this.#context;
    const goroot = await host.step('bundle.toolchain', 'Getting the Go toolchain', (progress) =>
      ensureToolchain(this.#context, progress),
    );
    if (modules.some((each) => each.cgo)) this.#cToolchain = await findCToolchain(this.#context);
    const builder = new GoBuilder(this.#context, { goroot, folder: this.#folder });
    for (const [index, recipe] of modules.entries()) {
      const title = `Building ${recipe.id}, ${index + 1} of ${modules.length}`;
      await host.step(`bundle.build.${recipe.id}`, title, async (progress) => {
        progress.update('fetching sources');
        const prepared = await builder.prepare(recipe);
        const programs = await buildCounting(builder, prepared, (text) => progress.update(text));
        for (const [name, path] of programs) this.#programs.set(name, path);
        await this.#assembleReady();
      });
    }
  }

  /** Puts together all components whose parts are there by now. */
  async #assembleReady(): Promise<void> {
    const { store, records, todo, sources } = this.#options;
    const parts = { programs: this.#programs, netbase: this.#netbase, cToolchain: this.#cToolchain };
    for (const planned of todo) {
      const { name, version } = planned.recipe;
      const isReady = programsOf(planned.recipe).every((one) => this.#programs.has(one));
      if (this.#outcomes.has(name) || !isReady) continue;
      const made = await assembleComponent(this.#context, store, planned, parts);
      const outcome = { ...made, source: sources?.get(name) ?? made.source };
      await records.remember(planned.key, outcome);
      this.#outcomes.set(name, outcome);
      const remaining = todo.length - this.#outcomes.size;
      const text = `${name} ${version}, ${formatBytes(outcome.sizeBytes)}; ${remaining} to go`;
      this.#context.host.say('bundle.component', text, { name, version, ...outcome, remaining });
    }
  }

  #needsNetbase(): boolean {
    return this.#options.todo.some((each) => each.needsNetbase);
  }

  /** Removes what runs left that were killed: nobody else does. */
  async #sweep(): Promise<void> {
    const { files, clock } = this.#context.ports;
    const folder = join(this.#context.cache, 'build');
    for (const name of await files.list(folder)) {
      const stat = await files.stat(join(folder, name));
      if (stat !== undefined && clock.nowMs() - stat.modifiedMs > ABANDONED_MS)
        await files.remove(join(folder, name));
    }
  }
}

function buildCounting(
  builder: GoBuilder,
  prepared: PreparedModule,
  report: (text: string) => void,
): Promise<ReadonlyMap<string, string>> {
  let compiled = 0;
  report(`${prepared.packages} packages`);
  return builder.build(prepared, (line) => {
    // Go marks what its C tools say with a #; everything else is a package that is being compiled.
    if (line.startsWith('#')) return;
    compiled += 1;
    report(`${compiled} of at most ${prepared.packages} packages, ${line}`);
  });
}

async function findCToolchain(context: BundleContext): Promise<CToolchain> {
  const env = { PATH: context.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C' };
  const ask = async (...argv: [string, ...string[]]): Promise<string> =>
    (await context.ports.commands.run({ argv, env, signal: context.signal })).stdout.trim();
  return {
    gcc: await ask('gcc', '-dumpfullversion'),
    libc: await ask('getconf', 'GNU_LIBC_VERSION'),
    libseccomp: await ask('pkg-config', '--modversion', 'libseccomp'),
  };
}
