import { join } from 'node:path';
import type { CommandResult } from '../../internal/exec/index.ts';
import type { BundleContext } from './context.ts';
import type { GoModuleRecipe } from './recipe.ts';

/** Peak of one link of the biggest program (kube-controller-manager), measured. */
const LINK_BYTES = 2 * 1024 ** 3;
const MAX_GO_MOD_BYTES = 4 * 1024 * 1024;

/** Settings of the user that say how modules are reached; nothing of them changes what is built. */
const NETWORK_SETTINGS = [
  'GOPROXY', 'GONOPROXY', 'GOSUMDB', 'GONOSUMDB', 'GOPRIVATE', 'GOAUTH',
  'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy',
  'SSL_CERT_FILE', 'SSL_CERT_DIR',
] as const; // prettier-ignore

/** A module whose sources are all there. */
export interface PreparedModule {
  readonly recipe: GoModuleRecipe;
  readonly folder: string;
  /** How many Go packages its programs are made of. */
  readonly packages: number;
}

/** The Go tool of one toolchain, run in throwaway modules below one directory. */
export class GoBuilder {
  readonly #context: BundleContext;
  readonly #goroot: string;
  readonly #folder: string;

  constructor(context: BundleContext, options: { readonly goroot: string; readonly folder: string }) {
    this.#context = context;
    this.#goroot = options.goroot;
    this.#folder = options.folder;
  }

  /**
   * Writes the throwaway module and fetches all sources. Which versions are used follows from the
   * recipe alone (minimal version selection); their bytes are checked by Go's checksum database.
   */
  async prepare(recipe: GoModuleRecipe): Promise<PreparedModule> {
    const folder = join(this.#folder, recipe.id);
    await this.#context.ports.files.makeDirectory(join(folder, 'out'), 0o755);
    // `go get` raises the language version to what the modules ask for.
    await this.#write(join(folder, 'go.mod'), `module bundle.invalid/${recipe.id}\n\ngo 1.21\n`);
    if (recipe.from.kind === 'own') await this.#copyOwn(recipe, folder);
    else await this.#require(recipe.from.modules, folder, recipe);
    const listed = await this.#go(recipe, folder, [
      'list',
      '-deps',
      ...tagsOf(recipe),
      ...packagesOf(recipe),
    ]);
    return { recipe, folder, packages: listed.stdout.split('\n').length - 1 };
  }

  /** Compiles and links. Answers the path of each program. */
  async build(
    prepared: PreparedModule,
    onPackage: (path: string) => void,
  ): Promise<ReadonlyMap<string, string>> {
    const { recipe, folder } = prepared;
    const programs = Object.entries(recipe.programs);
    // One run compiles what the programs share once; `-p` bounds compilers and linkers at work.
    const flags = ['-v', '-trimpath', '-p', String(parallelism(this.#context.machine)), ...tagsOf(recipe)];
    const link = [
      '-s',
      '-w',
      ...recipe.ldflags,
      ...(recipe.cgo ? ['-linkmode external -extldflags -static'] : []),
    ];
    const argv = [
      'build',
      ...flags,
      '-ldflags',
      link.join(' '),
      '-o',
      `${folder}/out/`,
      ...packagesOf(recipe),
    ];
    await this.#go(recipe, folder, argv, onPackage);
    return new Map(programs.map(([name, path]) => [name, join(folder, 'out', outputName(path))]));
  }

  async #require(modules: readonly string[], folder: string, recipe: GoModuleRecipe): Promise<void> {
    for (const module of modules) {
      const replaced = await this.#stagingReplacements(recipe, folder, module);
      if (replaced.length > 0) await this.#go(recipe, folder, ['mod', 'edit', ...replaced]);
    }
    await this.#go(recipe, folder, ['get', ...modules]);
  }

  /**
   * k8s.io/kubernetes replaces its staging modules by directories of its own repository, which only work
   * there. The same code is published as modules of version v0.MINOR.PATCH.
   */
  async #stagingReplacements(
    recipe: GoModuleRecipe,
    folder: string,
    module: string,
  ): Promise<readonly string[]> {
    const [, minorAndPatch] = /^k8s\.io\/kubernetes@v1\.(.+)$/.exec(module) ?? [];
    if (minorAndPatch === undefined) return [];
    const downloaded = await this.#go(recipe, folder, ['mod', 'download', '-json', module]);
    const { GoMod } = JSON.parse(downloaded.stdout) as { readonly GoMod: string };
    const goMod = await this.#context.ports.files.read(GoMod, MAX_GO_MOD_BYTES);
    return stagingModules(Buffer.from(goMod ?? []).toString()).map(
      (name) => `-replace=${name}=${name}@v0.${minorAndPatch}`,
    );
  }

  async #copyOwn(recipe: GoModuleRecipe, folder: string): Promise<void> {
    for (const name of Object.values(recipe.programs)) {
      const source = await this.#context.ports.files.read(
        join(this.#context.resources.programs, name, 'main.go'),
        MAX_GO_MOD_BYTES,
      );
      if (source === undefined)
        throw new TypeError(`building ${name}: its source is not in this installation`);
      await this.#context.ports.files.makeDirectory(join(folder, name), 0o755);
      await this.#write(join(folder, name, 'main.go'), source);
    }
  }

  async #write(path: string, content: string | Uint8Array): Promise<void> {
    await this.#context.ports.files.writeAtomic(path, content, { mode: 0o644 });
  }

  #go(
    recipe: GoModuleRecipe,
    folder: string,
    args: readonly string[],
    onLine?: (line: string) => void,
  ): Promise<CommandResult> {
    return this.#context.ports.commands.run({
      argv: [join(this.#goroot, 'bin', 'go'), ...args],
      cwd: folder,
      env: this.#environment(recipe),
      ...(onLine === undefined ? {} : { onLine: (line, stream) => stream === 'stderr' && onLine(line) }),
      signal: this.#context.signal,
    });
  }

  /** Whole and explicit: what the user has set for other builds must not change the bytes of this one. */
  #environment(recipe: GoModuleRecipe): Record<string, string> {
    const { env, cache, machine } = this.#context;
    const passed = NETWORK_SETTINGS.flatMap((name) => {
      const value = env[name];
      return value === undefined ? [] : [[name, value] as const];
    });
    return {
      ...Object.fromEntries(passed),
      PATH: env['PATH'] ?? '/usr/bin:/bin',
      HOME: env['HOME'] ?? '/',
      GOROOT: this.#goroot,
      GOTOOLCHAIN: 'local',
      GOMODCACHE: join(cache, 'go', 'mod'),
      GOCACHE: join(cache, 'go', 'build'),
      GOENV: 'off',
      GOWORK: 'off',
      GOFLAGS: '-mod=mod -buildvcs=false',
      GOTELEMETRY: 'off',
      GOOS: 'linux',
      GOARCH: machine.architecture,
      GOAMD64: 'v1',
      GOARM64: 'v8.0',
      CC: 'gcc',
      CGO_ENABLED: recipe.cgo ? '1' : '0',
    };
  }
}

/** The modules that upstream's go.mod replaces by directories below its staging directory. */
export function stagingModules(goMod: string): readonly string[] {
  return [...goMod.matchAll(/^\s*(?:replace\s+)?(k8s\.io\/[a-z0-9-]+) => \.\/staging\//gm)].map(
    ([, name = '']) => name,
  );
}

/** Compilers and linkers at once: one for each core, as far as memory allows all of them to link. */
export function parallelism(machine: { readonly cores: number; readonly memoryBytes: number }): number {
  return Math.max(1, Math.min(machine.cores, Math.floor(machine.memoryBytes / LINK_BYTES)));
}

/** What `go build -o FOLDER/` calls a program: the last part of its path that is not a major version. */
function outputName(path: string): string {
  const parts = path.split('/').filter((part) => !/^v[0-9]+$/.test(part));
  return parts.at(-1) ?? path;
}

function packagesOf(recipe: GoModuleRecipe): readonly string[] {
  const own = recipe.from.kind === 'own' ? './' : '';
  return Object.values(recipe.programs).map((path) => `${own}${path}`);
}

function tagsOf(recipe: GoModuleRecipe): readonly string[] {
  return recipe.tags.length === 0 ? [] : ['-tags', recipe.tags.join(',')];
}
