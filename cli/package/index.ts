/**
 * `cluster package`: our Debian packages as an apt repository, made of files alone:
 *
 *     DIR/pool/*.deb   Packages, Packages.gz   Release (hashes of both)   InRelease, cluster.asc (with a key of gpg)
 */
export { PackageError, packageErrors } from './errors.ts';
export { runPackageRepo, type PackageRepoOptions } from './package-repo.ts';
