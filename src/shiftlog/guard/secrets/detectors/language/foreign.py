"""Words for a password or a key in other languages than English, as they stand in UTF-8 lines decoded as Latin-1.

`names` decides about English names. A key counts only beside a word that says what it opens: `clé d'API`.
"""

import re

# An underscore stands for a blank, a hyphen, an underscore or nothing.
_PASSWORDS = """
adgangskode contraseña contrasena credenciais credenciales credenziali
heslo hasło haslo identifiants_de_connexion jelszó jelszo jeton kata_sandi kennwort
kodeord lozinka lösenord losenord mật_khẩu mot_de_passe mots_de_passe
palavra-passe parola parola_d'ordine parolă passord passwort
passwörter salasana secreto segredo segreto senha sifre wachtwoord zugangscode zugangsdaten şifre šifra
κωδικό_πρόσβασης κωδικός пароль паролем пароля парола лозинка секрет токен
סיסמה رمز_عبور كلمة_السر كلمة_المرور पासवर्ड รหัสผ่าน
シークレット トークン パスワード 令牌 口令
密码 密碼 密钥 密鑰 暗証番号 秘密鍵 認証情報 凭据 凭证 金鑰 비밀번호 시크릿 암호 토큰
"""
_KEYS = """
anahtar anahtarı avain chave cheie chiave clave clé klic klíč klucz kľúč kulcs ključ kunci nyckel nøgle nøkkel
schlüssel schluessel sleutel κλειδί ключ キー 키 khóa مفتاح מפתח
"""
_OPENED = """
acceso accès acces acesso access accesso api dostępu dostępowy geheime geheimer geheimen gizli hemlig hemmelig private
privada privata privater privat privé privée přístupový secreta secrète segreta secreet salainen tajny tajný titkos
toegangs zugangs zugriffs доступа приватный секретный アクセス 접근
"""


def _written(word: str) -> set[str]:
    """Return a word in small letters, with a capital and in capitals, as bytes decoded as Latin-1."""
    forms = (word, word[0].upper() + word[1:], word.upper())
    return {re.escape(form.encode().decode("latin-1")).replace("_", "[ _-]?").replace(r"\-", "-") for form in forms}


def _any_of(words: str) -> str:
    forms = {form for word in words.split() for form in _written(word)}
    return "|".join(sorted(forms, key=lambda form: (-len(form), form)))


_KEY, _OPENS = f"(?:{_any_of(_KEYS)})", f"(?:{_any_of(_OPENED)})"
_LINK = r"(?:[dD][aeiou]{0,2}(?:['´]|\xe2\x80\x99)?|voor|til|do)?"
#: For linear-time searches and for `re`.
FOREIGN_NAME = (
    rf"(?:{_any_of(_PASSWORDS)}|{_OPENS}[ _-]?(?:[A-Za-z]{{2,8}}[ _-])?{_KEY}|{_KEY}[ _-]?{_LINK}[ _-]?{_OPENS})"
)
FOREIGN_HINT = rf"(?:{_any_of(_PASSWORDS)}|{_KEY})"
