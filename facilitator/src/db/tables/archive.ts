/** Files in ARCHIVE_DIR that rows were written to before they were deleted. A file without a row here is not complete. */
export interface ArchiveFilesTable {
  chain_id: number;
  /** the table that the rows were in */
  kind: string;
  first_seq: number;
  last_seq: number;
  /** of the file, without its folder */
  name: string;
  rows: number;
  bytes: number;
  /** of the file, hex */
  sha256: string;
  created_at_ms: number;
}
