import { randomUUID } from 'node:crypto';
import { chmod, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { GO_TOOLCHAIN } from '../../bundle/index.ts';
import {
  ExecaRunner,
  ExecError,
  type Command,
  type CommandResult,
  type CommandRunner,
} from '../../exec/index.ts';
import { DiskFiles, DiskStreams, type FileStat, type WriteOptions } from '../../file/index.ts';
import { FakeClock } from '../fake-clock.ts';

/** The output of the fake `go build`: different for each program and its flags. */
export function fakeProgram(path: string, ldflags: string): string {
  return `program ${path} with ${ldflags}\n`;
}

/**
 * A fake build machine for tests: real files in one directory, a fast Go tool that writes small files, and
 * packages with four programs. It records every command.
 */
export class FakeBuildTools implements CommandRunner {
  readonly clock = new FakeClock();
  readonly ran: Command[] = [];
  readonly ports: { files: DiskFiles; streams: DiskStreams; commands: CommandRunner; clock: FakeClock };
  /** The directory of bundles and caches. */
  readonly cache: string;
  readonly machine = { architecture: 'amd64', cores: 2, memoryBytes: 8 * 1024 ** 3 } as const;
  /** Contains user settings that must not change the result of a build. */
  readonly env = {
    PATH: '/workshop/bin',
    HOME: '/workshop',
    GOFLAGS: '-tags=mine',
    GOPROXY: 'https://proxy.invalid',
  } as const;
  /** Modules whose build fails. */
  readonly broken = new Set<string>();
  /** Paths outside the directory that this machine lacks. All other paths exist. */
  readonly lacks = new Set<string>();
  readonly #real = new ExecaRunner({ path: '/usr/bin:/bin' });
  readonly #files = new WorkshopFiles(this.lacks);
  readonly #elf: Uint8Array;

  /** `directory` is a fresh temporary directory; `elf` is what every program of the packages consists of. */
  constructor(options: { readonly directory: string; readonly elf: Uint8Array }) {
    this.#elf = options.elf;
    this.cache = join(options.directory, 'cache');
    this.ports = { files: this.#files, streams: new UnsyncedStreams(), commands: this, clock: this.clock };
  }

  /** Installs the toolchain as if it had been downloaded. */
  async installToolchain(): Promise<void> {
    await this.#files.makeDirectory(
      join(this.cache, `go/toolchain/v0.0.1-go${GO_TOOLCHAIN.version}.linux-amd64/bin`),
    );
  }

  /** The commands of one program, as their arguments. */
  argumentsOf(program: string): readonly (readonly string[])[] {
    return this.ran
      .filter(({ argv }) => argv[0].split('/').at(-1) === program)
      .map(({ argv }) => argv.slice(1));
  }

  async run(command: Command): Promise<CommandResult> {
    command.signal.throwIfAborted();
    this.ran.push(command);
    const program = command.argv[0].split('/').at(-1);
    switch (program) {
      case 'go':
        return done(await this.#go(command));
      case 'apt-get':
        return done(await this.#apt(command.argv));
      case 'dpkg-deb':
        return done(await this.#dpkgDeb(command.argv));
      case 'gcc':
        return done('12.2.0\n');
      case 'getconf':
        return done('glibc 2.36\n');
      case 'pkg-config':
        return done('2.5.4\n');
      default:
        return this.#real.run(command);
    }
  }

  async #go({ argv, cwd = '', onLine }: Command): Promise<string> {
    const [, verb = '', ...args] = argv;
    if (verb === 'mod' && args[0] === 'download') {
      const path = join(cwd, 'upstream.mod');
      await this.#write(path, 'replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n');
      return JSON.stringify({ GoMod: path });
    }
    if (verb === 'list') return 'a\nb\nc\n';
    if (verb !== 'build') return '';
    if ([...this.broken].some((id) => cwd.endsWith(`/${id}`))) {
      throw new ExecError('exec-failed', { argv, exitCode: 1, outputTail: 'undefined: x' });
    }
    const ldflags = args[args.indexOf('-ldflags') + 1] ?? '';
    for (const path of args.slice(args.indexOf('-o') + 2)) {
      onLine?.(path, 'stderr');
      const name = path.split('/').findLast((part) => !/^v[0-9]+$/.test(part)) ?? path;
      await this.#write(join(cwd, 'out', name), fakeProgram(path, ldflags));
    }
    return '';
  }

  async #apt(argv: readonly string[]): Promise<string> {
    if (!argv.includes('install')) return '';
    const archives = argv.find((each) => each.startsWith('Dir::Cache::archives='))?.split('=')[1] ?? '';
    for (const name of PACKAGES.keys()) await this.#write(join(archives, name), '');
    return '';
  }

  async #dpkgDeb([, flag, archive = '', root = '']: readonly string[]): Promise<string> {
    const file = archive.split('/').at(-1) ?? '';
    const paths = PACKAGES.get(file) ?? [];
    const [name = '', version = ''] = file.split('_');
    if (flag === '-f') return `Package: ${name}\nVersion: ${version.replace('%3a', ':')}\n`;
    if (flag === '-c')
      return paths.map((path) => `-rwxr-xr-x root/root 9 2026-01-01 00:00 ./${path}\n`).join('');
    for (const path of paths) await this.#write(join(root, path), this.#elf);
    return '';
  }

  async #write(path: string, content: string | Uint8Array): Promise<void> {
    await this.#files.makeDirectory(join(path, '..'));
    await this.#files.writeAtomic(path, content);
  }
}

const PACKAGES = new Map([
  [
    'iptables_1.8.9-2_amd64.deb',
    ['usr/sbin/xtables-nft-multi', 'usr/lib/x86_64-linux-gnu/xtables/libxt_comment.so'],
  ],
  ['nftables_1.0.6-2_amd64.deb', ['usr/sbin/nft']],
  ['conntrack_1%3a1.4.7-1_amd64.deb', ['usr/sbin/conntrack']],
  ['iproute2_6.1.0-3_amd64.deb', ['bin/ip']],
  ['busybox-static_1%3a1.35.0-4_amd64.deb', ['bin/busybox']],
  ['libc6_2.36-9_amd64.deb', []],
]);

/** Real files, except for the programs and libraries of the machine itself. Does not sync to disk. */
class WorkshopFiles extends DiskFiles {
  readonly #lacks: ReadonlySet<string>;

  constructor(lacks: ReadonlySet<string>) {
    super();
    this.#lacks = lacks;
  }

  override async writeAtomic(
    path: string,
    data: Uint8Array | string,
    options: WriteOptions = {},
  ): Promise<void> {
    const temporary = `${path}.${randomUUID()}`;
    await writeFile(temporary, data, { mode: options.mode ?? 0o600 });
    await rename(temporary, path);
  }

  override async stat(path: string): Promise<FileStat | undefined> {
    if (!path.startsWith('/workshop/bin/') && !path.startsWith('/usr/lib')) return super.stat(path);
    const isLacking = [...this.#lacks].some((each) => path.endsWith(`/${each}`));
    return isLacking ? undefined : { kind: 'file', sizeBytes: 1, mode: 0o755, modifiedMs: 0 };
  }
}

/** Tests do not need data that survives a power failure, so nothing is synced. */
class UnsyncedStreams extends DiskStreams {
  override async publish(from: string, to: string, mode: number): Promise<void> {
    await chmod(from, mode);
    await rename(from, to);
  }
}

function done(stdout: string): CommandResult {
  return { exitCode: 0, stdout, stderr: '' };
}
