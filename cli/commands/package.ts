import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { collect } from './flags.ts';

interface RepoFlags {
  readonly deb?: readonly string[];
  readonly sign?: string;
}

/** `cluster package …`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .command('repo')
    .description('create or update an apt repository')
    .argument('<directory>', 'directory served by a web server')
    .option('--deb <file>', 'Debian package to add; may be repeated', collect)
    .option('--sign <key>', 'GPG key to sign with: ID, fingerprint or email address')
    .addHelpText(
      'after',
      `
Packages that are already in the repository are kept.

Example:
  cluster package repo /srv/www/cluster --sign ops@example.org \\
    --deb dist/cluster-agent_0.1.0_amd64.deb --deb dist/cluster_0.1.0_amd64.deb`,
    )
    .action(
      action<RepoFlags>(async (context, { deb = [], sign }, directory = '') => {
        const { runPackageRepo } = await import('../package/index.ts');
        return runPackageRepo(context, { directory, debs: deb, key: sign });
      }),
    );
}
