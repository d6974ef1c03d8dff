/**
 * `cluster package`: an apt repository with our Debian packages, consisting of static files:
 *
 *     DIR/pool/*.deb   Packages, Packages.gz   Release (hashes of both)   InRelease, cluster.asc (with a gpg key)
 */
export { runPackageRepo } from './package-repo.ts';
