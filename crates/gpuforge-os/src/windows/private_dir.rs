//! Access control lists: the owner is this user, and nobody but this user, the system and its administrators is allowed in.

use std::{
    ffi::c_void,
    fs::{self, File},
    io,
    os::windows::{
        fs::FileTypeExt as _,
        io::{AsRawHandle as _, OwnedHandle},
    },
    path::{Path, PathBuf},
};

use windows_sys::{
    Win32::{
        Foundation::{ERROR_SUCCESS, HANDLE},
        Security::{
            ACCESS_ALLOWED_ACE, ACE_HEADER, ACL,
            Authorization::{
                ConvertSidToStringSidW, ConvertStringSecurityDescriptorToSecurityDescriptorW,
                GetSecurityInfo, SDDL_REVISION_1, SE_FILE_OBJECT,
            },
            DACL_SECURITY_INFORMATION, EqualSid, GetAce, GetTokenInformation, IsWellKnownSid,
            OWNER_SECURITY_INFORMATION, PSID, SECURITY_ATTRIBUTES, TOKEN_QUERY, TOKEN_USER, TokenUser,
            WinBuiltinAdministratorsSid, WinCreatorOwnerRightsSid, WinCreatorOwnerSid, WinLocalSystemSid,
        },
        Storage::FileSystem::{
            CreateDirectoryW, FILE_APPEND_DATA, FILE_DELETE_CHILD, FILE_FLAG_BACKUP_SEMANTICS,
            FILE_FLAG_OPEN_REPARSE_POINT, FILE_WRITE_DATA, READ_CONTROL, WRITE_DAC, WRITE_OWNER,
        },
        System::{
            SystemServices::{ACCESS_ALLOWED_ACE_TYPE, ACCESS_DENIED_ACE_TYPE},
            Threading::{GetCurrentProcess, OpenProcessToken},
        },
    },
    core::PWSTR,
};

use super::{LocalMemory, owned, wide};

/// Rights with which somebody else could change what a file holds.
const WRITES: u32 =
    FILE_WRITE_DATA | FILE_APPEND_DATA | FILE_DELETE_CHILD | WRITE_DAC | WRITE_OWNER | GENERIC_WRITE_OR_ALL;
const GENERIC_WRITE_OR_ALL: u32 = 0x5000_0000;

pub(crate) fn runtime() -> PathBuf {
    // The profile of a user is closed to other users.
    let local = std::env::var_os("LOCALAPPDATA").map(PathBuf::from).filter(|path| path.is_absolute());
    local.unwrap_or_else(std::env::temp_dir).join("gpuforge-run")
}

/// The user of this process, as the token tells it: aligned memory that begins with a `TOKEN_USER`.
struct User(Vec<u64>);

impl User {
    fn current() -> io::Result<User> {
        let mut token: HANDLE = core::ptr::null_mut();
        // SAFETY: the pseudo handle of this process is always valid; `token` receives a handle that we own from here on.
        let opened = unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &raw mut token) } != 0;
        let token: OwnedHandle =
            opened.then(|| owned(token)).flatten().ok_or_else(io::Error::last_os_error)?;
        let mut length = 0;
        // SAFETY: no memory is passed; the call fails and says how much it needs.
        unsafe {
            GetTokenInformation(token.as_raw_handle(), TokenUser, core::ptr::null_mut(), 0, &raw mut length)
        };
        let mut memory = vec![0_u64; (length as usize).div_ceil(8)];
        // SAFETY: `memory` has `length` bytes, aligned for the structure and the SID behind it.
        let known = unsafe {
            GetTokenInformation(
                token.as_raw_handle(),
                TokenUser,
                memory.as_mut_ptr().cast(),
                length,
                &raw mut length,
            )
        } != 0;
        if known { Ok(User(memory)) } else { Err(io::Error::last_os_error()) }
    }

    fn sid(&self) -> PSID {
        // SAFETY: the memory was filled by the system as a `TOKEN_USER`, whose SID lies behind it in the same memory.
        unsafe { (*self.0.as_ptr().cast::<TOKEN_USER>()).User.Sid }
    }

    fn is(&self, sid: PSID) -> bool {
        // SAFETY: both are SIDs that the system has given us, and their memory lives.
        unsafe { EqualSid(self.sid(), sid) != 0 }
    }

    /// `S-1-5-21-…`
    fn text(&self) -> io::Result<String> {
        let mut text: PWSTR = core::ptr::null_mut();
        // SAFETY: `text` receives memory that is ours to free.
        if unsafe { ConvertSidToStringSidW(self.sid(), &raw mut text) } == 0 {
            return Err(io::Error::last_os_error());
        }
        let memory = LocalMemory(text.cast());
        // SAFETY: the text ends with zero and lives as long as `memory`.
        let length = (0..).take_while(|&i| unsafe { *text.add(i) } != 0).count();
        // SAFETY: so many units were just seen.
        let units = unsafe { core::slice::from_raw_parts(text, length) };
        let text = String::from_utf16_lossy(units);
        drop(memory);
        Ok(text)
    }
}

pub(crate) fn create(directory: &Path) -> io::Result<()> {
    let user = User::current()?.text()?;
    // Owned by the user, protected from what the parent would pass on; files inside inherit it.
    let rules = wide(format!("O:{user}D:P(A;OICI;FA;;;{user})(A;OICI;FA;;;SY)").as_ref());
    let mut descriptor = core::ptr::null_mut();
    // SAFETY: `rules` ends with zero; `descriptor` receives memory that is ours to free.
    let made = unsafe {
        ConvertStringSecurityDescriptorToSecurityDescriptorW(
            rules.as_ptr(),
            SDDL_REVISION_1,
            &raw mut descriptor,
            core::ptr::null_mut(),
        )
    } != 0;
    if !made {
        return Err(io::Error::last_os_error());
    }
    let _memory = LocalMemory(descriptor);
    let attributes = SECURITY_ATTRIBUTES {
        nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
        lpSecurityDescriptor: descriptor,
        bInheritHandle: 0,
    };
    let path = wide(directory.as_os_str());
    // SAFETY: `path` ends with zero; the descriptor lives until after the call.
    match unsafe { CreateDirectoryW(path.as_ptr(), &raw const attributes) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

pub(crate) fn check(directory: &Path) -> Result<(), String> {
    let kind = fs::symlink_metadata(directory).map_err(|error| error.to_string())?.file_type();
    if !kind.is_dir() || kind.is_symlink_dir() {
        return Err("it is not a directory".to_owned());
    }
    let access = access_of(&open(directory).map_err(|error| error.to_string())?);
    match access.map_err(|error| format!("its access list cannot be read: {error}"))? {
        Access { ours: false, .. } => Err("it belongs to somebody else".to_owned()),
        Access { others: 0, .. } => Ok(()),
        Access { others, .. } => Err(format!("others can enter it (access {others:#x})")),
    }
}

pub(crate) fn check_file(file: &File) -> Result<(), &'static str> {
    match access_of(file).map_err(|_| "its owner cannot be read")? {
        Access { ours: false, .. } => Err("the file is owned by another user"),
        Access { others, .. } if others & WRITES != 0 => Err("other users may write the file"),
        Access { .. } => Ok(()),
    }
}

/// The directory itself, never what a link leads to.
fn open(directory: &Path) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt as _;
    fs::OpenOptions::new()
        .access_mode(READ_CONTROL)
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT)
        .open(directory)
}

/// Who has access to a file.
struct Access {
    /// This user owns it.
    ours: bool,
    /// Rights of anybody but this user, the system and its administrators.
    others: u32,
}

/// From the open handle: no race between the check and the use.
fn access_of(file: &File) -> io::Result<Access> {
    let user = User::current()?;
    let (mut owner, mut acl): (PSID, *mut ACL) = (core::ptr::null_mut(), core::ptr::null_mut());
    let mut descriptor = core::ptr::null_mut();
    // SAFETY: the handle is open; owner and list point into `descriptor`, which is ours to free.
    let status = unsafe {
        GetSecurityInfo(
            file.as_raw_handle(),
            SE_FILE_OBJECT,
            OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
            &raw mut owner,
            core::ptr::null_mut(),
            &raw mut acl,
            core::ptr::null_mut(),
            &raw mut descriptor,
        )
    };
    if status != ERROR_SUCCESS {
        return Err(io::Error::from_raw_os_error(status.cast_signed()));
    }
    let _memory = LocalMemory(descriptor);
    let ours = !owner.is_null() && user.is(owner);
    if acl.is_null() {
        // No list at all: everything is allowed to everybody.
        return Ok(Access { ours, others: u32::MAX });
    }
    // SAFETY: the list is valid while `_memory` lives.
    let count = u32::from(unsafe { (*acl).AceCount });
    let others = (0..count).fold(0, |rights, index| rights | rights_of_others(acl, index, &user));
    Ok(Access { ours, others })
}

/// What an entry of a list allows to others; an unknown kind of entry counts as everything.
fn rights_of_others(acl: *const ACL, index: u32, user: &User) -> u32 {
    let mut entry: *mut c_void = core::ptr::null_mut();
    // SAFETY: `acl` is a valid list; `entry` receives a pointer into it.
    if unsafe { GetAce(acl, index, &raw mut entry) } == 0 {
        return u32::MAX;
    }
    // SAFETY: every entry begins with this header.
    let kind = u32::from(unsafe { (*entry.cast::<ACE_HEADER>()).AceType });
    if kind == ACCESS_DENIED_ACE_TYPE {
        return 0;
    }
    if kind != ACCESS_ALLOWED_ACE_TYPE {
        return u32::MAX;
    }
    let entry = entry.cast::<ACCESS_ALLOWED_ACE>();
    // SAFETY: an entry of this kind has a mask, and its SID begins at `SidStart`.
    let (mask, sid): (u32, PSID) = unsafe { ((*entry).Mask, (&raw mut (*entry).SidStart).cast()) };
    let trusted =
        [WinLocalSystemSid, WinBuiltinAdministratorsSid, WinCreatorOwnerSid, WinCreatorOwnerRightsSid];
    // SAFETY: a SID inside a valid entry.
    let trusted = trusted.into_iter().any(|known| unsafe { IsWellKnownSid(sid, known) } != 0);
    if trusted || user.is(sid) { 0 } else { mask }
}
