import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

interface RepoFlags {
  readonly deb: readonly string[];
  readonly sign?: string;
}

/** `cluster package …`. */
export function register(program: Command, action: ActionBinder): void {
  program
    .command('package')
    .description('the packages of this program, for machines that install them')
    .command('repo')
    .description('make a directory an apt repository of our packages, or add newer ones')
    .argument('<directory>', 'to be served by a web server')
    .option('--deb <file>', 'a Debian package to put in; may be repeated', collect, [])
    .option('--sign <key>', 'sign with this key of gpg (id, fingerprint or address)')
    .addHelpText(
      'after',
      `
Packages that the directory has already stay in it.

Example:
  cluster package repo /srv/www/cluster --sign ops@example.org \\
    --deb dist/cluster-agent_0.1.0_amd64.deb --deb dist/cluster_0.1.0_amd64.deb
`,
    )
    .action(
      action<RepoFlags>(async (context, { deb, sign }, directory = '') => {
        const { runPackageRepo } = await import('../package/index.ts');
        return runPackageRepo(context, { directory, debs: deb, key: sign });
      }),
    );
}

function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}
